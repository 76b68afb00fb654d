"""What Headrace needs of Kafka outside the language: a Java and the jars."""
