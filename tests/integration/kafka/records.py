"""Writing and reading plain records."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition


def produce(servers: str, topic: str, values: list[str], timestamp: int = 0, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": servers, "reconnect.backoff.max.ms": 200})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition, timestamp=timestamp)
    assert producer.flush(300) == 0


def consume(servers: str, topic: str, count: int, partition: int = 0) -> list[str]:
    """The first records of a partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        messages = consumer.consume(count, timeout=300)
        return [message.value().decode() for message in messages]
    finally:
        consumer.close()
