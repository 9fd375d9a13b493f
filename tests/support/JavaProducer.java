import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes each line of standard input as a record: to the topic of each codec that is named, its partition 0, at time 0.
 *
 * How well a topic is compressed, which says how much fits into a batch, is learnt when a batch is sent. So that it is
 * known as soon as it can be, however slow the machine is, it is waited for each batch before the one after next.
 */
class JavaProducer {
    public static void main(String[] arguments) throws Exception {
        var lines = new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\n");
        for (int at = 3; at < arguments.length; at++) {
            var settings = new Properties();
            settings.put("bootstrap.servers", arguments[0]);
            settings.put("compression.type", arguments[at]);
            settings.put("batch.size", arguments[2]);
            settings.put("buffer.memory", "33554432");
            // Batches are full, except for the last one.
            settings.put("linger.ms", "60000");
            var oneBatch = 33554432.0 - Integer.parseInt(arguments[2]);
            try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                var metrics = producer.metrics().entrySet().stream();
                var free = metrics.filter(one -> one.getKey().name().equals("buffer-available-bytes")).findFirst().get();
                for (var line : lines) {
                    var value = line.getBytes(StandardCharsets.UTF_8);
                    producer.send(new ProducerRecord<>(arguments[1] + "-" + arguments[at], 0, 0L, null, value));
                    while ((double) free.getValue().metricValue() < oneBatch) {
                        Thread.sleep(0, 100_000);
                    }
                }
            }
        }
    }
}
