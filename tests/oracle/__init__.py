"""Kafka Streams itself, driven from Python, as the judge of what is right."""
