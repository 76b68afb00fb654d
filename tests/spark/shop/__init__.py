"""An application as a user writes it: the cluster's test copies it to where only its own driver finds it."""
