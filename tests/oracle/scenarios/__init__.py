"""The scenarios, a file a topic."""
