import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Stack;
import java.util.Vector;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** The texts of Java's own exceptions. */
public class JdkTexts {
    enum Cup { SMALL, LARGE }

    private static void told(String name, Callable<Object> work) {
        try {
            System.out.println(name + " = " + work.call());
        } catch (Exception e) {
            System.out.println(name + ": " + e + " / " + e.getMessage());
        }
    }

    public static void main(String[] args) throws Exception {
        Object text = "x";
        Object number = 5;
        int zero = args.length;
        int[] array = {1};
        List<String> list = new ArrayList<>();
        told("cast", () -> (Integer) text);
        told("cast2", () -> (String) number);
        told("castmap", () -> (Map) text);
        told("div", () -> 1 / zero);
        told("rem", () -> 1L % zero);
        told("array", () -> array[3]);
        told("negative", () -> array[zero - 1]);
        told("get", () -> list.get(0));
        told("set", () -> list.set(2, "x"));
        told("remove", () -> list.remove(7));
        told("first", () -> new LinkedList<String>().getFirst());
        told("iterator", () -> list.iterator().next());
        told("vector", () -> new Vector<String>().get(2));
        told("elements", () -> new Vector<String>().elements().nextElement());
        told("unmodifiable", () -> Collections.unmodifiableList(list).add("x"));
        told("charAt", () -> "abc".charAt(5));
        told("substring", () -> "abc".substring(2, 1));
        told("substring1", () -> "abc".substring(5));
        told("builder", () -> new StringBuilder("ab").charAt(9));
        told("deleteCharAt", () -> new StringBuilder("ab").deleteCharAt(9).toString());
        told("insert", () -> new StringBuilder("ab").insert(9, "x").toString());
        told("int", () -> Integer.parseInt("abc"));
        told("empty", () -> Integer.parseInt(""));
        told("null", () -> Integer.parseInt(null));
        told("big", () -> Integer.parseInt("99999999999"));
        told("radix", () -> Integer.parseInt("zz", 16));
        told("long", () -> Long.parseLong("1L"));
        told("double", () -> Double.parseDouble("abc"));
        told("double0", () -> Double.parseDouble(" "));
        told("short", () -> Short.parseShort("70000"));
        told("byte", () -> Byte.parseByte("x"));
        told("decimal", () -> new BigDecimal("abc"));
        told("integer", () -> new BigInteger("12x"));
        told("third", () -> new BigDecimal("1").divide(new BigDecimal("3")));
        told("by zero", () -> new BigDecimal("1").divide(BigDecimal.ZERO));
        told("scale", () -> new BigDecimal("1.25").setScale(1));
        told("size", () -> new int[zero - 1]);
        told("format d", () -> String.format("%d", text));
        told("format missing", () -> String.format("%d %d", 1));
        told("format unknown", () -> String.format("%q", 1));
        told("format precision", () -> String.format("%.2d", 1));
        told("format f", () -> String.format("%f", 1));
        told("format flags", () -> String.format("100% sure"));
        told("enum", () -> Cup.valueOf("HUGE"));
        told("charset", () -> "x".getBytes("UTF-8").length);
        told("repeat", () -> "ab".repeat(zero - 1));
        told("range", () -> Arrays.copyOfRange(array, 3, 1).length);
        told("sublist", () -> list.subList(0, 4));
        told("optional", () -> Optional.empty().get());
        told("pop", () -> new ArrayDeque<String>().pop());
        told("stack", () -> new Stack<String>().pop());
        told("full", () -> {
            ArrayBlockingQueue<String> queue = new ArrayBlockingQueue<>(1);
            queue.add("a");
            return queue.add("b");
        });
        told("exact", () -> Math.addExact(Integer.MAX_VALUE, 1));
        told("uuid", () -> java.util.UUID.fromString("zz"));
        told("random", () -> new java.util.Random().nextInt(zero));
        told("file", () -> new java.io.FileReader("/nowhere/x"));
        told("date", () -> new java.text.SimpleDateFormat("yyyy-MM-dd").parse("xx"));
        ExecutorService pool = Executors.newFixedThreadPool(1);
        Future<String> future = pool.submit(() -> { if (zero == 0) throw new IllegalStateException("bad"); return "x"; });
        try {
            future.get();
        } catch (ExecutionException e) {
            System.out.println(e.getMessage() + " | " + e.getCause());
        }
        pool.shutdown();
        try {
            throw new NoSuchElementException("gone");
        } catch (RuntimeException e) {
            System.out.println(e);
        }
        Map<String, Integer> counts = new HashMap<>();
        System.out.println(counts.get("x"));
    }
}
