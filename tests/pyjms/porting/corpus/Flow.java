import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Loops, switches, exceptions, collections. */
public class Flow {
    interface Shape {
        double area();

        String NAME = "shape";
    }

    static abstract class Named implements Shape {
        protected final String name;
        private static int made;

        Named(String name) {
            this.name = name;
            made++;
        }

        public String toString() {
            return name + "[" + area() + "]";
        }

        static int getMade() {
            return made;
        }
    }

    static class Square extends Named {
        private int side;

        Square(int side) {
            super("square");
            this.side = side;
        }

        Square() {
            this(1);
        }

        public double area() {
            return side * side;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Square && ((Square) other).side == side;
        }

        @Override
        public int hashCode() {
            return side;
        }
    }

    static class Circle extends Named {
        private final double radius;

        Circle(double radius) {
            super("circle");
            this.radius = radius;
        }

        public double area() {
            return Math.PI * radius * radius;
        }
    }

    class Counter {
        private int count;

        void add(int by) {
            count += by;
            total += by;
        }
    }

    static class Trouble extends Exception {
        private final int code;

        Trouble(String message, int code) {
            super(message);
            this.code = code;
        }

        int getCode() {
            return code;
        }
    }

    private int total;
    private List<Runnable> work = new ArrayList<>();

    static String days(int month) {
        String result = "";
        switch (month) {
            case 2:
                result = "28";
                break;
            case 4:
            case 6:
            case 9:
            case 11:
                result = "30";
                break;
            default:
                result = "31";
        }
        return result;
    }

    static String fallThrough(int n) {
        StringBuilder b = new StringBuilder();
        switch (n) {
            case 3:
                b.append("three ");
            case 2:
                b.append("two ");
            case 1:
                b.append("one ");
                break;
            case 9:
                b.append("nine ");
            default:
                b.append("many ");
        }
        return b.toString();
    }

    static String arrow(char c) {
        switch (c) {
            case 'a', 'e' -> {
                return "vowel";
            }
            case 'x' -> System.out.println("x!");
            default -> System.out.println("consonant " + c);
        }
        int n = c - 'a';
        return switch (n) {
            case 0, 1 -> "early";
            case 25 -> "last";
            default -> "middle";
        };
    }

    static int tryIt(int n) throws Trouble {
        try {
            if (n == 1) {
                throw new Trouble("one", 11);
            }
            if (n == 2) {
                throw new IllegalStateException("two");
            }
            if (n == 3) {
                Object o = "text";
                Integer i = (Integer) o;
                return i;
            }
            if (n == 4) {
                int[] a = new int[2];
                return a[n];
            }
            if (n == 5) {
                return new int[2][-0].length;
            }
            if (n == 6) {
                List<String> list = new ArrayList<>();
                return list.get(-1).length();
            }
            return n;
        } catch (IllegalStateException | ArithmeticException e) {
            System.out.println("caught " + e.getMessage());
            return -2;
        } finally {
            System.out.println("finally " + n);
        }
    }

    void closures() {
        for (int i = 0; i < 3; i++) {
            final int number = i;
            work.add(() -> System.out.println("lambda " + number));
            work.add(new Runnable() {
                private int calls = number * 10;

                @Override
                public void run() {
                    calls++;
                    total += calls;
                    System.out.println("anonymous " + number + " " + calls + " " + total);
                }
            });
        }
        for (String name : new String[] {"a", "b"}) {
            work.add(() -> {
                String text = name + name;
                System.out.println("block " + text);
            });
        }
        for (Runnable each : work) {
            each.run();
        }
        for (Runnable each : work) {
            each.run();
        }
    }

    public static void main(String[] args) throws Exception {
        for (int month = 1; month <= 4; month++) {
            System.out.println(days(month) + " " + fallThrough(month));
        }
        System.out.println(fallThrough(9) + arrow('a') + arrow('b') + arrow('x') + arrow('z'));
        for (int n = 0; n < 7; n++) {
            try {
                System.out.println("result " + tryIt(n));
            } catch (Trouble e) {
                System.out.println(e + " " + e.getCode() + " " + e.getMessage());
            } catch (ClassCastException e) {
                System.out.println("wrong class");
            } catch (IndexOutOfBoundsException e) {
                System.out.println("wrong index");
            } catch (RuntimeException e) {
                System.out.println("something else");
            }
        }
        List<Shape> shapes = new ArrayList<Shape>();
        shapes.add(new Square(3));
        shapes.add(new Circle(1.5));
        shapes.add(new Square());
        double area = 0;
        for (Shape each : shapes) {
            area += each.area();
        }
        System.out.println(shapes + " " + area + " " + Named.getMade() + " " + Shape.NAME);
        System.out.println(shapes.contains(new Square(3)) + " " + shapes.indexOf(new Square(1)) + " " + new Square(2).equals(null));
        Iterator<Shape> iterator = shapes.iterator();
        while (iterator.hasNext()) {
            Shape shape = iterator.next();
            if (shape instanceof Circle) {
                iterator.remove();
            }
        }
        System.out.println(shapes.size() + " " + shapes.get(1));
        Map<String, Integer> counts = new LinkedHashMap<>();
        String text = "to be or not to be";
        for (String word : text.split(" ")) {
            Integer old = counts.get(word);
            counts.put(word, old == null ? 1 : old + 1);
        }
        System.out.println(counts);
        for (Map.Entry<String, Integer> entry : counts.entrySet()) {
            System.out.println(entry.getKey() + "=" + entry.getValue());
        }
        for (String key : counts.keySet()) {
            System.out.print(key + " ");
        }
        System.out.println(counts.containsKey("be") + " " + counts.get("that") + " " + counts.size());
        int i = 0;
        while (true) {
            i++;
            if (i % 2 == 0) {
                continue;
            }
            if (i > 7) {
                break;
            }
            System.out.print(i + " ");
        }
        do {
            i -= 3;
        } while (i > 0);
        System.out.println(i);
        for (int a = 0, b = 10; a < b; a += 3, b--) {
            if (a == 3) {
                continue;
            }
            System.out.print(a + ":" + b + " ");
        }
        for (int k = 10; k > 0; k -= 4) {
            System.out.print(k + " ");
        }
        int limit = 5;
        for (int k = 0; k < limit; k++) {
            if (k == 2) {
                limit = 4;
            }
            System.out.print(k + " ");
        }
        System.out.println();
        int[][] table = new int[2][3];
        table[1][2] = 5;
        table[0][1] += 2;
        table[0][1]++;
        int[] copy = {3, 1, 2};
        System.arraycopy(copy, 0, table[0], 1, 2);
        for (int[] row : table) {
            for (int cell : row) {
                System.out.print(cell + " ");
            }
        }
        System.out.println(table.length);
        Flow flow = new Flow();
        Counter one = flow.new Counter();
        one.add(2);
        flow.closures();
        System.out.println(flow.total);
    }
}
