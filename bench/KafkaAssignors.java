import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Kafka's own two assignors, on cases and timed.
 *
 *   java -cp 'LIBS/*' KafkaAssignors.java cases client|server FILE
 *       answers the cases of FILE as `evensplit assign --format json` does
 *   java -cp 'LIBS/*' KafkaAssignors.java serve SPLITS READERS CLASSES PRIOR
 *       makes the instance that bench/assign_instances.py makes too, says "ready", and assigns once for each line
 *       "client" or "server" that it reads; the answer to a line is one line of JSON
 *
 * client: the algorithm of StickyAssignor, told what members own and since which generation as by subscription v2.
 * server: UniformAssignor, of the group protocol of KIP-848.
 */
public class KafkaAssignors {
    static {
        // Kafka's assignors log claims that they drop, and log4j would write that among the answers.
        System.setProperty("org.apache.logging.log4j.level", "OFF");
    }

    static final class Sticky extends AbstractStickyAssignor {
        @Override
        protected MemberData memberData(Subscription subscription) {
            return new MemberData(subscription.ownedPartitions(), subscription.generationId());
        }

        @Override
        public String name() {
            return "sticky";
        }
    }

    /** topic -> partitions, member -> topics, member -> what it says it owns, member -> since which generation. */
    record Group(
        Map<String, Integer> topics,
        Map<String, List<String>> members,
        Map<String, List<TopicPartition>> owned,
        Map<String, Integer> generation
    ) {
        int generationOf(String member) {
            return generation.getOrDefault(member, AbstractStickyAssignor.DEFAULT_GENERATION);
        }

        boolean mayOwn(String member, TopicPartition partition) {
            return members.containsKey(member)
                && members.get(member).contains(partition.topic())
                && partition.partition() < topics.getOrDefault(partition.topic(), 0);
        }
    }

    static Map<String, List<TopicPartition>> assign(String who, Group group) {
        return who.equals("client") ? client(group) : server(group);
    }

    static Map<String, List<TopicPartition>> client(Group group) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        group.members.forEach((member, topics) -> subscriptions.put(member, new Subscription(
            topics, null, group.owned.getOrDefault(member, List.of()), group.generationOf(member), Optional.empty())));
        Map<String, List<PartitionInfo>> partitions = new HashMap<>();
        group.topics.forEach((topic, count) -> {
            List<PartitionInfo> own = new ArrayList<>(count);
            for (int p = 0; p < count; p++) {
                own.add(new PartitionInfo(topic, p, Node.noNode(), new Node[0], new Node[0]));
            }
            if (count > 0) partitions.put(topic, own);
        });
        return new Sticky().assignPartitions(partitions, subscriptions);
    }

    static Map<String, List<TopicPartition>> server(Group group) {
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        long next = 1;
        for (String topic : new TreeSet<>(group.topics.keySet())) {
            Uuid id = new Uuid(7, next++);
            ids.put(topic, id);
            names.put(id, topic);
        }
        Map<String, Map<Uuid, Set<Integer>>> held = new HashMap<>();
        Map<Uuid, Map<Integer, String>> holders = new HashMap<>();
        resolved(group).forEach((partition, member) -> {
            Uuid id = ids.get(partition.topic());
            held.computeIfAbsent(member, x -> new HashMap<>())
                .computeIfAbsent(id, x -> new HashSet<>()).add(partition.partition());
            holders.computeIfAbsent(id, x -> new HashMap<>()).put(partition.partition(), member);
        });
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Set<Set<Uuid>> shapes = new HashSet<>();
        group.members.forEach((member, topics) -> {
            Set<Uuid> wanted = new HashSet<>();
            for (String topic : topics) if (group.topics.getOrDefault(topic, 0) > 0) wanted.add(ids.get(topic));
            shapes.add(wanted);
            members.put(member, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), wanted, new Assignment(held.getOrDefault(member, Map.of()))));
        });
        SubscriptionType type =
            shapes.size() <= 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment given = new UniformAssignor().assign(
            new GroupSpecImpl(members, type, holders),
            new SubscribedTopicDescriber() {
                public int numPartitions(Uuid id) {
                    return names.containsKey(id) ? group.topics.get(names.get(id)) : -1;
                }

                public Set<String> racksForPartition(Uuid id, int partition) {
                    return Set.of();
                }
            });
        Map<String, List<TopicPartition>> result = new HashMap<>();
        given.members().forEach((member, own) -> own.partitions().forEach((id, partitions) -> partitions.forEach(
            p -> result.computeIfAbsent(member, x -> new ArrayList<>()).add(new TopicPartition(names.get(id), p)))));
        return result;
    }

    /** Who owns what, since the server keeps that itself: the highest generation, and nobody where two claim in it. */
    static Map<TopicPartition, String> resolved(Group group) {
        Map<TopicPartition, String> owner = new HashMap<>();
        Map<TopicPartition, Integer> generation = new HashMap<>();
        Set<TopicPartition> disputed = new HashSet<>();
        group.owned.forEach((member, partitions) -> {
            for (TopicPartition partition : partitions) {
                if (!group.mayOwn(member, partition)) continue;
                int now = group.generationOf(member);
                Integer known = generation.get(partition);
                if (known == null || now > known) {
                    owner.put(partition, member);
                    generation.put(partition, now);
                    disputed.remove(partition);
                } else if (now == known) {
                    disputed.add(partition);
                }
            }
        });
        owner.keySet().removeAll(disputed);
        return owner;
    }

    static void cases(String who, File file) throws IOException {
        ObjectMapper mapper = new ObjectMapper();
        ArrayNode answers = mapper.createArrayNode();
        for (JsonNode one : mapper.readTree(file)) {
            ObjectNode answer = answers.addObject();
            answer.put("id", one.get("id").asText());
            ObjectNode owners = answer.putObject("owners");
            try {
                assign(who, groupOf(one)).forEach((member, partitions) -> partitions.forEach(
                    partition -> owners.put(partition.topic() + "-" + partition.partition(), member)));
            } catch (RuntimeException error) {
                answer.put("error", error.toString());
            }
        }
        System.out.println(mapper.writeValueAsString(answers));
    }

    static Group groupOf(JsonNode one) {
        Map<String, Integer> topics = new LinkedHashMap<>();
        one.get("topics").fields().forEachRemaining(topic -> topics.put(topic.getKey(), topic.getValue().asInt()));
        Map<String, List<String>> members = new LinkedHashMap<>();
        one.get("members").fields().forEachRemaining(member -> {
            List<String> wanted = new ArrayList<>();
            member.getValue().forEach(topic -> wanted.add(topic.asText()));
            members.put(member.getKey(), wanted);
        });
        Map<String, List<TopicPartition>> owned = new HashMap<>();
        Map<String, Integer> generation = new HashMap<>();
        for (JsonNode claim : one.get("claims")) {
            List<TopicPartition> own = new ArrayList<>();
            for (JsonNode partition : claim.get("partitions")) {
                String name = partition.asText();
                int dash = name.lastIndexOf('-');
                own.add(new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1))));
            }
            owned.put(claim.get("member").asText(), own);
            if (!claim.get("generation").isNull()) {
                generation.put(claim.get("member").asText(), claim.get("generation").asInt());
            }
        }
        return new Group(topics, members, owned, generation);
    }

    /** With one class every member reads everything; else each reads two neighbouring classes of topics. */
    static Group instance(int splits, int readers, int classes, String prior) {
        int topicCount = Math.max(classes, splits / 1000);
        Map<String, Integer> topics = new LinkedHashMap<>();
        for (int t = 0; t < topicCount; t++) topics.put("t" + t, splits / topicCount);
        Map<String, List<String>> members = new LinkedHashMap<>();
        for (int m = 0; m < readers; m++) {
            List<String> wanted = new ArrayList<>();
            for (int t = 0; t < topicCount; t++) if (reads(m, t, classes)) wanted.add("t" + t);
            members.put("m" + m, wanted);
        }
        int owners = prior.equals("joins") ? readers - 1 : prior.equals("leaves") ? readers + 1 : readers;
        List<List<Integer>> able = new ArrayList<>();
        for (int c = 0; c < classes; c++) {
            able.add(new ArrayList<>());
            for (int m = 0; m < owners; m++) if (reads(m, c, classes)) able.get(c).add(m);
        }
        Map<String, List<TopicPartition>> owned = new HashMap<>();
        int each = splits / topicCount;
        for (int t = 0; t < topicCount && !prior.equals("fresh"); t++) {
            List<Integer> among = able.get(t % classes);
            for (int p = 0; p < each; p++) {
                long number = (long) t * each + p;
                long place = prior.equals("random") ? (mixed(number) >>> 1) % among.size() : number % among.size();
                owned.computeIfAbsent("m" + among.get((int) place), x -> new ArrayList<>())
                    .add(new TopicPartition("t" + t, p));
            }
        }
        owned.keySet().retainAll(members.keySet());
        Map<String, Integer> generation = new HashMap<>();
        for (String member : members.keySet()) generation.put(member, 1);
        return new Group(topics, members, owned, generation);
    }

    static boolean reads(int member, int topic, int classes) {
        return classes == 1 || topic % classes == member % classes || topic % classes == (member + 1) % classes;
    }

    /** A number that looks random (SplitMix64), the same in every language. */
    static long mixed(long number) {
        long z = (number + 1) * 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    static void serve(Group group) throws IOException {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("\"ready\"");
        for (String who = lines.readLine(); who != null; who = lines.readLine()) {
            System.gc();
            for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) pool.resetPeakUsage();
            ThreadMXBean threads = ManagementFactory.getThreadMXBean();
            long cpuBegan = threads.getCurrentThreadCpuTime();
            long began = System.nanoTime();
            Map<String, List<TopicPartition>> given = assign(who, group);
            double milliseconds = (System.nanoTime() - began) / 1e6;
            double cpuMilliseconds = (threads.getCurrentThreadCpuTime() - cpuBegan) / 1e6;
            ObjectNode answer = mapper.createObjectNode();
            answer.put("milliseconds", milliseconds);
            answer.put("cpu_milliseconds", cpuMilliseconds);
            answer.put("memory_peak_bytes", heapPeak());
            describe(group, given, answer);
            System.out.println(mapper.writeValueAsString(answer));
        }
    }

    static long heapPeak() {
        long bytes = 0;
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            if (pool.getType() == MemoryType.HEAP) bytes += pool.getPeakUsage().getUsed();
        }
        return bytes;
    }

    static void describe(Group group, Map<String, List<TopicPartition>> given, ObjectNode answer) {
        long squares = 0;
        long kept = 0;
        long owned = 0;
        int most = 0;
        int least = Integer.MAX_VALUE;
        for (String member : group.members.keySet()) {
            List<TopicPartition> own = given.getOrDefault(member, List.of());
            Set<TopicPartition> before = new HashSet<>(group.owned.getOrDefault(member, List.of()));
            owned += before.size();
            for (TopicPartition partition : own) if (before.contains(partition)) kept++;
            squares += (long) own.size() * own.size();
            most = Math.max(most, own.size());
            least = Math.min(least, own.size());
        }
        answer.put("load_max", most).put("load_min", least).put("squares", squares).put("moved", owned - kept);
    }

    public static void main(String[] given) throws IOException {
        if (given[0].equals("cases")) {
            cases(given[1], new File(given[2]));
        } else {
            int classes = Integer.parseInt(given[3]);
            serve(instance(Integer.parseInt(given[1]), Integer.parseInt(given[2]), classes, given[4]));
        }
    }
}
