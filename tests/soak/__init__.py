"""An hour of everything at once."""
