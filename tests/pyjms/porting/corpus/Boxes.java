import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Boxed numbers, generics, exceptions of Python's own, and static fields. */
public class Boxes {
    private static final long MINUTE = 60 * 1000;
    private static final int LIMIT = Integer.MAX_VALUE;
    private static final String NAME = "box" + 1 + 'c';
    static int[] squares = {1, 4, 9};
    static List<String> shared = new ArrayList<>();

    static String kind(Object o) {
        if (o instanceof Long) return "Long";
        if (o instanceof Integer) return "Integer";
        if (o instanceof Float) return "Float";
        if (o instanceof Double) return "Double";
        if (o instanceof Character) return "Character";
        if (o instanceof Short) return "Short";
        if (o instanceof Byte) return "Byte";
        if (o instanceof Boolean) return "Boolean";
        return o == null ? "null" : "other";
    }

    static String kinds(List<?> list) {
        StringBuilder b = new StringBuilder();
        for (Object each : list) {
            b.append(each).append(kind(each)).append(' ');
        }
        return b.toString();
    }

    static class Box<T> {
        private T value;

        Box(T value) {
            this.value = value;
        }

        T get() {
            return value;
        }

        void set(T value) {
            this.value = value;
        }
    }

    static class Animal {
        String speak() {
            return "...";
        }

        String twice() {
            return speak() + speak();
        }
    }

    static class Dog extends Animal {
        private static int dogs = 0;
        private final int number = ++dogs;

        @Override
        String speak() {
            return "wuff" + number;
        }
    }

    static int depth(int n) {
        return n <= 0 ? 0 : 1 + depth(n - 1);
    }

    static long factorial(int n) {
        long result = 1;
        for (int i = 2; i <= n; i++) {
            result *= i;
        }
        return result;
    }

    static int fibonacci(int n) {
        int a = 0, b = 1;
        while (n-- > 0) {
            int next = a + b;
            a = b;
            b = next;
        }
        return a;
    }

    public static void main(String[] args) {
        List<Long> longs = new ArrayList<>();
        longs.add(5L);
        longs.add(1L << 40);
        long first = longs.get(0);
        System.out.println(kinds(longs) + first + longs.contains(5L) + longs.get(0).equals(first));
        List<Float> floats = new ArrayList<>();
        floats.add(0.1f);
        floats.add(3f * 0.1f);
        System.out.println(kinds(floats) + floats + floats.get(0));
        List<Character> letters = new ArrayList<>();
        for (char c = 'a'; c < 'd'; c++) {
            letters.add(c);
        }
        System.out.println(kinds(letters) + letters.contains('b') + letters.indexOf('c'));
        Object[] all = {(short) 3, (byte) 4, 5, 6L, 7f, 8.0, 'x', true, "s", null};
        for (Object each : all) {
            System.out.print(kind(each) + " ");
        }
        System.out.println();
        Box<Long> box = new Box<Long>(7L);
        Long inside = box.get();
        System.out.println(kind(box.get()) + inside + inside.equals(7L) + (inside == 7) + (inside + 1));
        Box<Object> other = new Box<Object>(2.5f);
        System.out.println(kind(other.get()) + other.get());
        other.set(1);
        System.out.println(kind(other.get()) + other.get());
        Map<String, Long> sums = new LinkedHashMap<>();
        for (int i = 0; i < 5; i++) {
            String key = i % 2 == 0 ? "even" : "odd";
            Long sum = sums.get(key);
            sums.put(key, (sum == null ? 0L : sum) + i);
        }
        System.out.println(sums + " " + kind(sums.get("odd")));
        System.out.println(MINUTE + " " + (LIMIT + 1) + " " + NAME + squares[2] + squares.length + shared.size());
        System.out.println(new Dog().twice() + new Dog().speak() + new Animal().twice());
        System.out.println(depth(50) + " " + factorial(20) + " " + factorial(21) + " " + factorial(66) + " " + fibonacci(46) + " " + fibonacci(50));
        try {
            Thread.sleep(-1);
        } catch (IllegalArgumentException e) {
            System.out.println("no negative time");
        } catch (InterruptedException e) {
            System.out.println("interrupted");
        }
        try {
            shared.get(0);
        } catch (IndexOutOfBoundsException e) {
            System.out.println("empty");
        }
        try {
            int[] none = null;
            System.out.println(none[0]);
        } catch (NullPointerException e) {
            System.out.println("no array");
        }
        Integer whole = 3;
        Double half = 0.5;
        Object mixed = args.length == 0 ? whole : half;
        System.out.println(mixed + kind(mixed));
        System.out.println(sums.keySet() + " " + sums.values() + " " + sums.entrySet());
        String[] parts = "a b  c".split("\\s+", 2);
        System.out.println(parts.length + parts[1] + "a b".split("\\s+", 1).length + ",a,".split(",").length + "".split(",").length);
        System.out.println(new Thread(() -> System.out.println("never")).getName().startsWith("Thread-"));
        Object wide = args.length == 0 ? 1 : 2.0;
        System.out.println(wide);
    }
}
