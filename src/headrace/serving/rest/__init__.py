"""The REST interface of an instance."""
