"""A first topology: how often each word occurs, run on the test driver."""

from headrace import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology
from headrace.testing import TopologyTestDriver


def word_counts() -> Topology:
    text, number = Serdes.string(), Serdes.long()
    builder = StreamsBuilder()
    (
        builder.stream("lines", Consumed(key=text, value=text))
        .flat_map_values(lambda line: line.lower().split())
        .group_by(lambda _, word: word, Grouped(key=text, value=text))
        .count(Materialized("counts", key=text, value=number))
        .to_stream()
        .to("word-counts", Produced(key=text, value=number))
    )
    return builder.build()


def main() -> None:
    topology = word_counts()
    print(topology.describe())
    with TopologyTestDriver(topology, StreamsConfig(application_id="first-topology")) as driver:
        lines = driver.input_topic("lines", key=Serdes.string(), value=Serdes.string())
        counts = driver.output_topic("word-counts", key=Serdes.string(), value=Serdes.long())
        for timestamp, line in enumerate(["all streams lead to Kafka", "hello Kafka streams"]):
            lines.pipe(None, line, timestamp=timestamp)
        for record in counts.read_all():
            print(f"{record.timestamp} ms  {record.key}: {record.value}")


if __name__ == "__main__":
    main()
