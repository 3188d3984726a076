import static java.lang.Math.max;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileReader;
import java.io.FileWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** What programs need beside JMS. */
public class Everyday {
    enum Status { NEW, PAID("paid for") { @Override String label() { return "*" + super.label(); } }, GONE("gone");
        private final String label;
        Status() { this("new one"); }
        Status(String label) { this.label = label; }
        String label() { return label; }
        boolean isOpen() { return this != GONE; }
        static Status of(int n) { return values()[n % values().length]; }
    }

    interface Pricing { double price(String what, int count); default String currency() { return "EUR"; } }

    static class Order implements Comparable<Order>, java.io.Serializable {
        final String name;
        final int cups;
        transient int seen = 3;
        Status status = Status.NEW;
        Order(String name, int cups) { this.name = name; this.cups = cups; }
        Order(String name) { this(name, 1); }
        String getName() { return name; }
        int getCups() { return cups; }
        public int compareTo(Order other) { return Integer.compare(cups, other.cups); }
        @Override public String toString() { return name + "x" + cups; }
    }

    static void show(int n) { System.out.println("int " + n); }
    static void show(String s) { System.out.println("text " + s); }
    static void show(Order o) { System.out.println("order " + o); }

    static String kind(Object o) {
        if (o instanceof Integer) return "integer";
        return o.getClass().getSimpleName();
    }

    static String sized(Status status, int n) {
        switch (status) {
            case NEW:
                if (n > 3) break;
                return "small new";
            case PAID:
                return "paid";
            default:
                return "else";
        }
        return "big new";
    }

    static void enums() {
        for (Status each : Status.values()) {
            System.out.println(each + " " + each.name() + " " + each.ordinal() + " " + each.label() + " " + each.isOpen() + " " + sized(each, 2));
        }
        System.out.println(sized(Status.NEW, 5) + Status.valueOf("GONE").label() + Status.of(4) + Status.NEW.compareTo(Status.GONE));
        String said = switch (Status.of(1)) { case NEW -> "n"; case PAID -> "p"; default -> "g"; };
        System.out.println(said);
        Map<Status, Integer> counts = new TreeMap<>();
        counts.merge(Status.PAID, 1, Integer::sum);
        counts.merge(Status.PAID, 1, Integer::sum);
        counts.merge(Status.NEW, 5, (a, b) -> a * b);
        System.out.println(counts);
        show(7); show("seven"); show(new Order("tea", 7));
        System.out.println(Order.class.getName() + " " + Order.class.getSimpleName() + " " + String.class.getName() + kind(5) + kind("x"));
    }

    static void numbers() {
        System.out.println(Math.sqrt(2) + " " + Math.pow(2, 10) + " " + Math.round(2.5) + " " + Math.round(-2.5) + " " + Math.ceil(1.2) + " " + Math.floor(-1.2) + " " + max(3, 4));
        System.out.println(Math.floorMod(-7, 3) + " " + Math.abs(-3.5) + " " + Math.max(1.5, 2) + " " + Math.hypot(3, 4) + " " + Math.sqrt(-1));
        System.out.println(new Integer(5) + new Long(6) + " " + new Double("1.5") + " " + Integer.toBinaryString(10) + " " + Integer.toHexString(-1) + " " + Long.toHexString(255) + " " + Integer.toString(255, 36));
        BigDecimal price = new BigDecimal("19.99");
        System.out.println(price.multiply(new BigDecimal(3)) + " " + price.add(BigDecimal.ONE).setScale(1, RoundingMode.HALF_UP) + " " + price.divide(new BigDecimal("7"), 4, RoundingMode.HALF_EVEN) + " " + price.negate().abs().compareTo(price) + " " + BigDecimal.valueOf(2.50) + " " + new BigDecimal("1E+3").toPlainString() + " " + new BigDecimal("1E+3") + " " + new BigDecimal("0.00000012") + " " + new BigDecimal("100").stripTrailingZeros() + " " + price.equals(new BigDecimal("19.990")) + " " + new BigDecimal("1.00").divide(new BigDecimal("8")));
        BigInteger big = BigInteger.valueOf(Long.MAX_VALUE).add(BigInteger.ONE).pow(2);
        System.out.println(big + " " + big.mod(new BigInteger("97")) + " " + big.signum() + " " + big.toString(16));
        System.out.println(String.format("%5d|%-5s|%05.1f|%x|%,d|%2$s|%e|%b|%c|%10.3e|%o|%X|%+d|%(d|%g|%%", 42, "ab", 3.14159, 255, 1234567, 12345.678, true, 'x', 0.00012, 8, 255L, 5, -6, 0.5));
        System.out.println(String.format("%x %x %x %08X %h %S %.2s %s", -1, -1L, (byte) -1, 48879, "hi", "up", "cut", Arrays.asList(1, 2)));
        System.out.println("hello".hashCode() + " " + Integer.valueOf(7).hashCode() + " " + Arrays.asList("a", "b").hashCode());
    }

    static void texts() {
        System.out.println(Arrays.toString("a1b22c".split("[0-9]+")) + Arrays.toString("a,b,,".split(",")) + Arrays.toString("a.b".split("\\.")) + Arrays.toString("abc".split("")) + Arrays.toString(" x y".trim().split("\\s+")));
        System.out.println("a-b-c".replaceAll("-", "+") + "x1y2".replaceAll("([a-z])([0-9])", "$2$1") + "2024".matches("\\d{4}") + "aaa".replaceFirst("a", "b") + "  ".isBlank() + "ab".compareToIgnoreCase("AC") + String.join("|", Arrays.asList("p", "q")) + String.valueOf(new char[] {'o', 'k'}));
        Matcher matcher = Pattern.compile("(?<key>\\w+)=(\\w+)").matcher("a=1, b=22");
        while (matcher.find()) System.out.println(matcher.group("key") + ":" + matcher.group(2) + "@" + matcher.start());
        StringBuilder builder = new StringBuilder("abcdef");
        builder.replace(1, 3, "XY").delete(0, 1).setCharAt(0, 'Z');
        System.out.println(builder + " " + builder.indexOf("d") + " " + builder.substring(2) + " " + builder.length());
    }

    static void collections() {
        List<Order> orders = new ArrayList<>(Arrays.asList(new Order("tea", 3), new Order("coffee"), new Order("milk", 2)));
        Collections.sort(orders);
        System.out.println(orders);
        orders.sort(Comparator.comparing(Order::getName));
        System.out.println(orders);
        orders.sort(Comparator.comparingInt(Order::getCups).reversed());
        System.out.println(orders + " " + Collections.max(orders) + " " + orders.stream().mapToInt(Order::getCups).sum());
        System.out.println(orders.stream().filter(o -> o.getCups() > 1).map(Order::getName).collect(Collectors.joining(", ", "<", ">")));
        List<Integer> lengths = orders.stream().map(o -> o.getName().length()).sorted().collect(Collectors.toList());
        System.out.println(lengths + " " + lengths.contains(3) + " " + lengths.indexOf(6) + IntStream.range(0, 5).mapToObj(i -> "n" + i).collect(Collectors.toList()));
        orders.forEach(o -> System.out.print(o.name + ";"));
        orders.stream().map(Order::toString).forEach(System.out::println);
        Map<String, List<Integer>> groups = new LinkedHashMap<>();
        for (int i = 0; i < 6; i++) groups.computeIfAbsent(i % 2 == 0 ? "even" : "odd", k -> new ArrayList<>()).add(i);
        System.out.println(groups + " " + groups.getOrDefault("none", new ArrayList<>()) + groups.putIfAbsent("even", null));
        groups.forEach((k, v) -> System.out.println(k + "->" + v.size()));
        for (Map.Entry<String, List<Integer>> entry : groups.entrySet()) System.out.println(entry.getKey() + "=" + entry.getValue());
        TreeMap<String, Integer> sorted = new TreeMap<>();
        sorted.put("b", 2); sorted.put("a", 1); sorted.put("c", 3);
        System.out.println(sorted + " " + sorted.firstKey() + sorted.lastKey() + sorted.floorKey("bb") + sorted.higherKey("c") + new TreeSet<>(Arrays.asList(3, 1, 2)));
        List<Integer> numbers = new ArrayList<>(Arrays.asList(5, 3, 9, 1));
        Collections.reverse(numbers); numbers.removeIf(n -> n > 8); numbers.replaceAll(n -> n * 10);
        System.out.println(numbers + " " + Collections.min(numbers) + Collections.nCopies(2, "z") + Collections.emptyList() + numbers.subList(0, 2));
        int[] array = {4, 2, 8};
        Arrays.sort(array); int[] copy = array.clone(); copy[0] = 99;
        System.out.println(Arrays.toString(array) + copy[0] + Arrays.stream(array).max().getAsInt() + Arrays.equals(array, copy) + Arrays.toString(Arrays.copyOf(array, 5)));
        Function<Integer, Integer> twice = n -> n * 2; BiFunction<Integer, Integer, Integer> add = (a, b) -> a + b;
        Supplier<String> supplier = () -> "made"; Predicate<String> isLong = s -> s.length() > 3;
        Pricing pricing = (what, count) -> what.length() * count * 0.5;
        System.out.println(twice.apply(21) + add.apply(1, 2) + supplier.get() + isLong.test("four") + pricing.price("tea", 3) + pricing.currency());
    }

    static void files() throws IOException {
        File file = File.createTempFile("everyday", ".txt");
        try (BufferedWriter writer = new BufferedWriter(new FileWriter(file))) {
            writer.write("first line"); writer.newLine(); writer.write("second 42 3.5 true"); writer.newLine();
        }
        try (BufferedReader reader = new BufferedReader(new FileReader(file))) {
            String line;
            while ((line = reader.readLine()) != null) System.out.println(line);
        }
        System.out.println(file.length() + " " + file.exists() + " " + file.delete() + " " + file.exists() + " " + new File("a/b", "c.txt").getName() + new File("a/b/").getPath());
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.write("h\u00e9llo".getBytes("UTF-8")); bytes.write(10);
        BufferedReader again = new BufferedReader(new InputStreamReader(new ByteArrayInputStream(bytes.toByteArray()), "UTF-8"));
        System.out.println(again.readLine() + bytes.size() + again.readLine());
        Scanner scanner = new Scanner("one 2 3.5 true\nrest of it");
        System.out.println(scanner.next() + scanner.nextInt() + scanner.nextDouble() + scanner.nextBoolean() + scanner.nextLine() + scanner.nextLine() + scanner.hasNextLine());
        Properties properties = new Properties();
        properties.load(new ByteArrayInputStream("# note\nurl = tcp://x:1\nname: a\\\n  b\n".getBytes()));
        System.out.println(properties.getProperty("url") + "," + properties.getProperty("name") + "," + properties.getProperty("none", "default"));
        StringWriter text = new StringWriter();
        PrintWriter printer = new PrintWriter(text);
        printer.println("printed"); printer.printf("%d%n", 5); printer.print('c'); printer.flush();
        System.out.print(text);
        System.out.println();
    }

    static void dates() throws Exception {
        SimpleDateFormat format = new SimpleDateFormat("yyyy-MM-dd HH:mm:ss");
        Date date = format.parse("2009-02-13 23:31:30");
        System.out.println(format.format(date) + new SimpleDateFormat(" EEE, d MMM yyyy hh:mm a 'o''clock'").format(date) + String.format(" %tY-%<tm-%<td %tB", date, date));
        System.out.println(new Date(date.getTime() + 1000).after(date) + " " + date.before(new Date()) + " " + date.compareTo(date) + " " + date.equals(new Date(date.getTime())));
    }

    static void threads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(2);
        List<Future<Integer>> futures = new ArrayList<>();
        for (int i = 1; i <= 3; i++) { final int n = i; futures.add(pool.submit(() -> n * n)); }
        int sum = 0;
        for (Future<Integer> future : futures) sum += future.get();
        List<Callable<String>> works = new ArrayList<>();
        works.add(() -> "a"); works.add(() -> "b");
        for (Future<String> each : pool.invokeAll(works)) System.out.print(each.get());
        pool.shutdown();
        System.out.println(sum + " " + pool.awaitTermination(5, TimeUnit.SECONDS) + " " + pool.isShutdown());
        BlockingQueue<String> queue = new LinkedBlockingQueue<>();
        Thread producer = new Thread(() -> { try { queue.put("x"); Thread.sleep(60000); } catch (InterruptedException e) { queue.add("interrupted"); } });
        producer.start();
        System.out.println(queue.take() + queue.poll(10, TimeUnit.MILLISECONDS));
        producer.interrupt(); producer.join();
        System.out.println(queue.take() + queue.size() + Thread.currentThread().getName());
    }

    public static void main(String[] args) throws Exception {
        enums(); numbers(); texts(); collections(); files(); dates(); threads();
        int n = 0;
        do { n++; if (n == 2) continue; if (n > 4) break; } while (n < 10);
        System.out.println(n);
        try { throw new Exception("told"); } catch (Exception e) { e.printStackTrace(System.err); }
        Map<String, String> environment = System.getenv();
        System.out.println(environment.containsKey("surely not there"));
        System.out.println(new HashMap<String, Integer>().isEmpty());
    }
}
