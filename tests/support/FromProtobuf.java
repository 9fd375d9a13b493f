import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.sparkproject.connect.protobuf.ByteString;
import org.sparkproject.connect.protobuf.DescriptorProtos.FileDescriptorProto;
import org.sparkproject.connect.protobuf.DescriptorProtos.FileDescriptorSet;
import org.sparkproject.connect.protobuf.Descriptors.Descriptor;
import org.sparkproject.connect.protobuf.Descriptors.EnumValueDescriptor;
import org.sparkproject.connect.protobuf.Descriptors.FieldDescriptor;
import org.sparkproject.connect.protobuf.Descriptors.FileDescriptor;
import org.sparkproject.connect.protobuf.DynamicMessage;
import org.sparkproject.connect.protobuf.Message;

/**
 * What Spark's from_protobuf makes of messages, with its default options: they are parsed by the library that Spark has
 * inside, as Spark does it (DynamicMessage), and become rows by Spark's rules.
 *
 * <p>Each line of the input is "set NAME DESCRIPTOR_SET", for the lines after it, or "value MESSAGE", in base64. Each
 * message gives a line: "bad REASON", or a struct as an array of JSON, a map as one of pairs, numbers as such, those
 * with a point as {"d": the bits of a double}, bytes as {"b": base64}.
 */
public class FromProtobuf {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        Descriptor type = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            if (words[0].equals("set")) {
                type = find(FileDescriptorSet.parseFrom(Base64.getDecoder().decode(words[2])), words[1]);
            } else {
                out.println(answer(type, Base64.getDecoder().decode(words[1])));
            }
        }
        out.flush();
    }

    private static String answer(Descriptor type, byte[] value) {
        try {
            DynamicMessage message = DynamicMessage.parseFrom(type, value);
            for (Integer number : message.getUnknownFields().asMap().keySet()) {
                if (type.findFieldByNumber(number) != null) {
                    return "bad field " + number + " has another type";
                }
            }
            return row(message);
        } catch (IOException | RuntimeException problem) {
            return "bad " + String.valueOf(problem.getMessage()).replace('\n', ' ').replaceAll("[^ -~]", "?");
        }
    }

    private static String row(Message message) {
        List<String> cells = new ArrayList<>();
        for (FieldDescriptor field : message.getDescriptorForType().getFields()) {
            if (isEmpty(field)) {
                continue;
            }
            boolean there = field.isRepeated() || field.hasDefaultValue() || message.hasField(field);
            cells.add(there ? cell(field, message.getField(field)) : "null");
        }
        return list(cells, cell -> cell);
    }

    private static String cell(FieldDescriptor field, Object value) {
        if (field.isMapField()) {
            FieldDescriptor key = field.getMessageType().getFields().get(0);
            FieldDescriptor inner = field.getMessageType().getFields().get(1);
            return list((List<?>) value, entry -> {
                Message pair = (Message) entry;
                return "[" + one(key, pair.getField(key)) + "," + one(inner, pair.getField(inner)) + "]";
            });
        }
        return field.isRepeated() ? list((List<?>) value, item -> one(field, item)) : one(field, value);
    }

    private static String one(FieldDescriptor field, Object value) {
        switch (field.getJavaType()) {
            case FLOAT:
                return "{\"d\":" + Double.doubleToRawLongBits((Float) value) + "}";
            case DOUBLE:
                return "{\"d\":" + Double.doubleToRawLongBits((Double) value) + "}";
            case STRING:
                return text((String) value);
            case ENUM:
                return text(((EnumValueDescriptor) value).toString());
            case BYTE_STRING:
                byte[] bytes = ((ByteString) value).toByteArray();
                return "{\"b\":\"" + Base64.getEncoder().encodeToString(bytes) + "\"}";
            case MESSAGE:
                return isTime(field.getMessageType()) ? micros((Message) value) : row((Message) value);
            default:
                return String.valueOf(value);
        }
    }

    private static String micros(Message time) {
        List<FieldDescriptor> fields = time.getDescriptorForType().getFields();
        long seconds = (Long) time.getField(fields.get(0));
        int nanos = (Integer) time.getField(fields.get(1));
        long micros = Math.multiplyExact(seconds * 1000, 1000L);
        return String.valueOf(micros + TimeUnit.NANOSECONDS.toMicros(nanos));
    }

    private static boolean isTime(Descriptor type) {
        List<String> names = type.getFields().stream().map(FieldDescriptor::getName).collect(Collectors.toList());
        boolean named = type.getName().equals("Timestamp") || type.getName().equals("Duration");
        return named && names.equals(List.of("seconds", "nanos"));
    }

    /** Whether it is a message without a field: Spark leaves it out. */
    private static boolean isEmpty(FieldDescriptor field) {
        if (field.getJavaType() != FieldDescriptor.JavaType.MESSAGE) {
            return false;
        }
        return field.getMessageType().getFields().stream().allMatch(FromProtobuf::isEmpty)
            || field.isMapField() && isEmpty(field.getMessageType().getFields().get(1));
    }

    private static <T> String list(List<T> items, Function<T, String> item) {
        return items.stream().map(item).collect(Collectors.joining(",", "[", "]"));
    }

    private static String text(String value) {
        StringBuilder written = new StringBuilder("\"");
        for (char one : value.toCharArray()) {
            boolean plain = one >= ' ' && one <= '~' && one != '"' && one != '\\';
            written.append(plain ? String.valueOf(one) : String.format("\\u%04x", (int) one));
        }
        return written.append('"').toString();
    }

    private static Descriptor find(FileDescriptorSet set, String name) throws Exception {
        Map<String, FileDescriptor> built = new HashMap<>();
        Descriptor found = null;
        for (FileDescriptorProto file : set.getFileList()) {
            FileDescriptor[] imports = file.getDependencyList().stream().map(built::get).toArray(FileDescriptor[]::new);
            FileDescriptor made = FileDescriptor.buildFrom(file, imports);
            built.put(file.getName(), made);
            for (Descriptor type : made.getMessageTypes()) {
                found = type.getFullName().equals(name) ? type : found;
            }
        }
        return found;
    }
}
