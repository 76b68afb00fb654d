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
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
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

    public record Store(String city, String region) {}

    public record Placed(String orderId, double finalAmount, String city, String region) {}

    public record Payment(String orderId, String method, double amount) {}

    public record Paid(String locationId, double finalAmount, String method, double amount) {}

    private static final Duration WINDOW = Duration.ofSeconds(15);
    private static final Duration GRACE = Duration.ofDays(1);
    private static final Duration PAID_WITHIN = Duration.ofSeconds(5);
    private static final Duration PAYMENT_GRACE = Duration.ofMinutes(1);
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<Order> ORDER = json(Order.class);
    private static final Serde<Revenue> REVENUE = json(Revenue.class);
    private static final Serde<Total> TOTAL = json(Total.class);
    private static final Serde<Store> STORE = json(Store.class);
    private static final Serde<Placed> PLACED = json(Placed.class);
    private static final Serde<Payment> PAYMENT = json(Payment.class);
    private static final Serde<Paid> PAID = json(Paid.class);

    public static void main(String[] arguments) throws InterruptedException {
        if (arguments.length != 7) {
            System.err.println("usage: Contender TOPOLOGY SOURCE[,SOURCE] OUTPUT SERVERS APPLICATION_ID STATE_DIR THREADS");
            System.exit(2);
        }
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[3]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[4]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[5]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[6]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        KafkaStreams streams = new KafkaStreams(topology(arguments[0], arguments[1].split(","), arguments[2]), settings);
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

    private static Topology topology(String name, String[] sources, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Order> orders = builder.stream(sources[0], Consumed.with(TEXT, ORDER));
        switch (name) {
            case "stateless" -> stateless(orders, output);
            case "totals" -> totals(orders, output);
            case "windows" -> windows(orders, output);
            case "table-join" -> tableJoin(orders, builder, sources[1], output);
            case "stream-join" -> streamJoin(orders, builder, sources[1], output);
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

    private static void tableJoin(
            KStream<String, Order> orders, StreamsBuilder builder, String stores, String output) {
        KTable<String, Store> table = builder.table(
                stores,
                Consumed.with(TEXT, STORE),
                Materialized.<String, Store, KeyValueStore<Bytes, byte[]>>as("stores")
                        .withKeySerde(TEXT)
                        .withValueSerde(STORE));
        orders.join(table, Contender::placed, Joined.with(TEXT, ORDER, STORE)).to(output, Produced.with(TEXT, PLACED));
    }

    private static void streamJoin(
            KStream<String, Order> orders, StreamsBuilder builder, String payments, String output) {
        KStream<String, Payment> paid = builder.stream(payments, Consumed.with(TEXT, PAYMENT));
        orders.join(
                        paid,
                        Contender::paid,
                        JoinWindows.ofTimeDifferenceAndGrace(PAID_WITHIN, PAYMENT_GRACE),
                        StreamJoined.with(TEXT, ORDER, PAYMENT))
                .to(output, Produced.with(TEXT, PAID));
    }

    private static Placed placed(Order order, Store store) {
        return new Placed(order.orderId(), order.finalAmount(), store.city(), store.region());
    }

    private static Paid paid(Order order, Payment payment) {
        return new Paid(order.locationId(), order.finalAmount(), payment.method(), payment.amount());
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
