import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/** The workloads on Kafka Streams; topologies.py has the same for Headrace. */
public final class Contender {
    public record LineItem(String item, int count, double amount) {}

    public record Order(
            String orderId,
            String locationId,
            double finalAmount,
            String orderType,
            List<LineItem> orderLineItems,
            String orderedDateTime) {}

    public record Revenue(String locationId, double finalAmount, int items) {}

    public record Total(long count, double revenue) {}

    private static final Duration WINDOW = Duration.ofSeconds(15);
    private static final Duration GRACE = Duration.ofDays(1);
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<Order> ORDER = json(Order.class);
    private static final Serde<Revenue> REVENUE = json(Revenue.class);
    private static final Serde<Total> TOTAL = json(Total.class);

    public static void main(String[] arguments) throws InterruptedException {
        if (arguments.length != 7) {
            System.err.println("usage: Contender TOPOLOGY SOURCE OUTPUT SERVERS APPLICATION_ID STATE_DIR THREADS");
            System.exit(2);
        }
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[3]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[4]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[5]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[6]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        KafkaStreams streams = new KafkaStreams(topology(arguments[0], arguments[1], arguments[2]), settings);
        CountDownLatch failed = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
        failed.await();
        System.exit(1);
    }

    private static Topology topology(String name, String source, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Order> orders = builder.stream(source, Consumed.with(TEXT, ORDER));
        switch (name) {
            case "stateless" -> stateless(orders, output);
            case "totals" -> totals(orders, output);
            case "windows" -> windows(orders, output);
            default -> throw new IllegalArgumentException("no topology " + name);
        }
        return builder.build();
    }

    private static void stateless(KStream<String, Order> orders, String output) {
        orders.filter((key, order) -> order.orderType().equals("GENERAL"))
                .mapValues(order ->
                        new Revenue(order.locationId(), order.finalAmount(), order.orderLineItems().size()))
                .to(output, Produced.with(TEXT, REVENUE));
    }

    private static void totals(KStream<String, Order> orders, String output) {
        orders.groupByKey()
                .aggregate(
                        () -> new Total(0, 0.0),
                        Contender::add,
                        Materialized.<String, Total, KeyValueStore<Bytes, byte[]>>as("totals")
                                .withKeySerde(TEXT)
                                .withValueSerde(TOTAL))
                .toStream()
                .to(output, Produced.with(TEXT, TOTAL));
    }

    private static void windows(KStream<String, Order> orders, String output) {
        orders.groupBy((key, order) -> order.locationId(), Grouped.with("by-location", TEXT, ORDER))
                .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
                .aggregate(
                        () -> new Total(0, 0.0),
                        Contender::add,
                        Materialized.<String, Total, WindowStore<Bytes, byte[]>>as("totals")
                                .withKeySerde(TEXT)
                                .withValueSerde(TOTAL))
                .toStream()
                .to(output, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), TOTAL));
    }

    private static Total add(String key, Order order, Total total) {
        return new Total(total.count() + 1, total.revenue() + order.finalAmount());
    }

    private static <T> Serde<T> json(Class<T> type) {
        ObjectMapper mapper = new ObjectMapper();
        ObjectReader reader = mapper.readerFor(type);
        ObjectWriter writer = mapper.writerFor(type);
        return Serdes.serdeFrom(
                (topic, value) -> {
                    try {
                        return value == null ? null : writer.writeValueAsBytes(value);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                },
                (topic, data) -> {
                    try {
                        return data == null ? null : reader.readValue(data);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                });
    }
}
