"""State over REST, from any of several instances: who has which partition, copies of stores, queries and routing."""
