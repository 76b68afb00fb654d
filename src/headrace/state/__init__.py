"""State stores in Kafka Streams' forms, over one ordered map of bytes each."""
