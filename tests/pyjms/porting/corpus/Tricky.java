import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

/** What a translation may get wrong without a word. */
public class Tricky {
    static StringBuilder log = new StringBuilder();
    static int calls;
    int x = 1;

    static class Base {
        private int count = 10;
        protected String name = "base";
        static String kind = "Base";

        Base() {
            log.append("Base() ");
            hook();
        }

        void hook() {
            log.append("hook ");
        }

        private String secret() {
            return "base secret";
        }

        String tell() {
            return secret() + " " + count + " " + name;
        }

        static String make() {
            return "made by Base";
        }
    }

    static class Derived extends Base {
        private int count = 20;
        static String kind = "Derived";
        private String extra = "extra";

        @Override
        void hook() {
            super.hook();
            log.append("derived ");
        }

        private String secret() {
            return "derived secret";
        }

        String both() {
            return tell() + " / " + secret() + " " + count + " " + kind + " " + extra;
        }

        static String make() {
            return "made by Derived";
        }
    }

    static class Point {
        final int x;
        final int y;

        Point(int x, int y) {
            this.x = x;
            this.y = y;
        }

        Point(int both) {
            this(both, both);
        }

        Point() {
            this(7);
        }

        Point plus(Point other) {
            return plus(other.x, other.y);
        }

        Point plus(int dx, int dy) {
            return new Point(x + dx, y + dy);
        }

        static String show(Point... points) {
            String all = "";
            for (Point each : points) {
                all += "(" + each.x + "," + each.y + ")";
            }
            return points.length + all;
        }
    }

    static int next() {
        return ++calls;
    }

    static int post() {
        return calls++;
    }

    static boolean say(boolean value, String name) {
        log.append(name).append(' ');
        return value;
    }

    static int finallyReturns(int n) {
        int result = n;
        try {
            if (n == 0) {
                return result;
            }
            result = n * 2;
            if (n == 1) {
                throw new IllegalArgumentException("one");
            }
            return result;
        } catch (IllegalArgumentException e) {
            result = -1;
            return result;
        } finally {
            result = 99;
            log.append("finally").append(n).append(' ');
        }
    }

    static String swallowed() {
        try {
            throw new RuntimeException("lost");
        } finally {
            return "returned";
        }
    }

    static String loops() {
        StringBuilder b = new StringBuilder();
        for (int i = 0, j = 5; i < 8; i++, j--) {
            switch (i) {
                case 1:
                    continue;
                case 2:
                case 3:
                    b.append("s");
                    break;
                default:
                    b.append(i);
            }
            if (i == 5) {
                continue;
            }
            b.append(j).append(' ');
        }
        int k = 3;
        while (k-- > 0) {
            b.append(k);
        }
        b.append(k);
        for (; k < 2; ) {
            k += 1;
        }
        b.append(k);
        int[] a = {5, 6, 7};
        int i = 0;
        a[i++] = 50;
        a[i] += 4;
        a[i] *= 2;
        b.append(a[0]).append(a[1]).append(a[2]).append(i);
        i = i++;
        b.append(i);
        i = i++ + i++;
        b.append(i);
        int shadow = 0;
        for (int n : a) {
            shadow += n;
        }
        for (int n = 0; n < 2; n++) {
            String text = "t" + n;
            b.append(text);
        }
        return b.append(shadow).toString();
    }

    String closures() throws Exception {
        List<Callable<String>> made = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            int square = i * i + x;
            made.add(() -> "a" + square);
        }
        {
            String word = "first";
            made.add(() -> word);
        }
        {
            String word = "second";
            made.add(() -> word + x);
        }
        class Local implements Callable<String> {
            private final String suffix;

            Local(String suffix) {
                this.suffix = suffix;
            }

            public String call() {
                return "local " + suffix + x;
            }
        }
        made.add(new Local("one"));
        made.add(new Callable<String>() {
            int x = 100;

            @Override
            public String call() throws Exception {
                x++;
                Callable<String> inner = new Callable<String>() {
                    public String call() {
                        return "inner " + x + " " + Tricky.this.x;
                    }
                };
                return inner.call();
            }
        });
        x = 5;
        StringBuilder b = new StringBuilder();
        for (Callable<String> each : made) {
            b.append(each.call()).append(';');
        }
        return b.toString();
    }

    static String patterns(Object o) {
        if (o instanceof String s && s.length() > 2) {
            return "long string " + s;
        } else if (o instanceof Integer i) {
            return "int " + (i + 1);
        }
        if (!(o instanceof String s)) {
            return "no string";
        }
        return "short " + s;
    }

    static class Failure extends RuntimeException {
        Failure(String message, Throwable cause) {
            super(message, cause);
        }
    }

    static class Resource implements AutoCloseable {
        private final String name;

        Resource(String name) {
            this.name = name;
            log.append("open ").append(name).append(' ');
        }

        @Override
        public void close() {
            log.append("close ").append(name).append(' ');
        }
    }

    static void resources(boolean fail) {
        try (Resource one = new Resource("1"); Resource two = new Resource("2")) {
            log.append("in ").append(one.name).append(two.name).append(' ');
            if (fail) {
                throw new IllegalStateException("failed");
            }
        } catch (IllegalStateException e) {
            log.append("caught ");
        } finally {
            log.append("finally ");
        }
    }

    public static void main(String[] args) throws Exception {
        Derived d = new Derived();
        Base b = d;
        System.out.println(d.both() + " | " + b.tell() + " | " + Base.make() + " " + Derived.make() + " " + Base.kind + " " + log);
        System.out.println(Point.show() + Point.show(new Point()) + Point.show(new Point(1), new Point(1, 2).plus(3, 4)));
        System.out.println(new Point(2).plus(new Point(3, 4)).y);
        System.out.println(next() + next() * next() + " " + post() + " " + calls);
        int n = next() - next();
        System.out.println(n);
        log.setLength(0);
        boolean r = say(false, "a") && say(true, "b") || say(true, "c") & say(false, "d") | say(true, "e");
        System.out.println(r + " " + log);
        log.setLength(0);
        System.out.println(finallyReturns(0) + " " + finallyReturns(1) + " " + finallyReturns(2) + " " + swallowed() + " " + log);
        System.out.println(loops());
        System.out.println(new Tricky().closures());
        System.out.println(patterns("hello") + patterns("hi") + patterns(4) + patterns(4L) + patterns(null));
        try {
            try {
                Integer.parseInt("x");
            } catch (NumberFormatException e) {
                throw new Failure("wrapped", e);
            }
        } catch (Failure e) {
            System.out.println(e.getMessage() + " " + (e.getCause() instanceof NumberFormatException) + " " + (e.getCause() == null));
        }
        try {
            throw new Exception("plain", null);
        } catch (RuntimeException e) {
            System.out.println("not this");
        } catch (Exception e) {
            System.out.println(e + " " + e.getMessage());
        }
        try {
            throw new Error("error");
        } catch (Exception e) {
            System.out.println("not this");
        } catch (Throwable t) {
            System.out.println(t);
        }
        log.setLength(0);
        resources(false);
        resources(true);
        System.out.println(log);
        Map<Character, Integer> counts = new LinkedHashMap<>();
        for (char c : "hello".toCharArray()) {
            counts.put(c, counts.containsKey(c) ? counts.get(c) + 1 : 1);
        }
        System.out.println(counts + " " + counts.get('l') + " " + counts.put('h', 9) + counts.remove('x') + counts.remove('e'));
        Integer boxed = 127;
        boxed++;
        boxed += 2;
        System.out.println(boxed);
        String s = "s";
        s += 'c';
        s += 1;
        s += 2.0;
        s += null;
        System.out.println(s);
        char c = 'a';
        int code = c;
        c += 1;
        switch (c) {
            case 'b':
                System.out.println("b " + code + (char) (code + 2) + (int) c + -c);
        }
        long product = 100000 * 100000;
        long right = 100000L * 100000;
        System.out.println(product + " " + right + " " + (right > 1e9) + " " + (5 / 2 * 2.0) + " " + (char) ('a' + next() % 3));
        int a1 = 3, b1 = a1 = 4;
        System.out.println(a1 + b1 + " " + (a1 = 6) + a1 + (a1 == 6 ? "six" : a1 == 7 ? "seven" : "other"));
        Point p = new Point();
        Point q = p;
        System.out.println((p == q) + " " + (p == new Point()) + " " + (p != null) + p.equals(q) + p.equals(new Point()));
        String[] names = new String[2];
        names[1] = "n";
        System.out.println(names[0] + names[1] + names.length);
        List<String> list = new ArrayList<>();
        list.add("x");
        list.add(0, "y");
        System.out.println(list + list.set(0, "z") + list.remove(1) + list + list.isEmpty() + list.remove("q") + list.size());
        int ternary = list.isEmpty() ? 0 : list.get(0).length();
        System.out.println(ternary);
    }
}
