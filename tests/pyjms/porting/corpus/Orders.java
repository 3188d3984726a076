import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.JMSException;

/** In which order things happen, and to whom names belong. */
public class Orders {
    private static int tick;
    private int value = 3;
    private static final Map<Integer, String> NAMES = new HashMap<>();
    private List<Integer> trace = new ArrayList<>();

    static int next() {
        return ++tick;
    }

    static String name(int n) {
        return "n" + n;
    }

    static class Counter {
        private int count;
        static int created;
        int id = ++created;

        {
            count = id * 100;
        }

        Counter add(int n) {
            count += n;
            return this;
        }

        int count() {
            return count;
        }
    }

    class Inner {
        int value = 7;

        class Deep {
            int sum() {
                return value + Orders.this.value;
            }

            void change() {
                value++;
                Orders.this.value *= 2;
                trace.add(value);
            }
        }
    }

    static class Refused extends JMSException {
        private final int count;

        Refused(String reason, int count) {
            super(reason, "R" + count);
            this.count = count;
        }

        @Override
        public String getMessage() {
            return super.getMessage() + " x" + count;
        }
    }

    static int sum(int... numbers) {
        int sum = 0;
        for (int each : numbers) {
            sum += each;
        }
        return sum;
    }

    static void evaluation() {
        tick = 0;
        Map<Integer, Integer> map = new LinkedHashMap<>();
        map.put(next(), next());
        map.put(next(), 0);
        System.out.println(map);
        System.out.println("abcdefghij".substring(next(), next()) + tick);
        System.out.println(Integer.compare(next(), next()) + Math.max(next(), next()) * next());
        int x = 5;
        x += x++ + ++x;
        System.out.println(x);
        x = x++ * 2 + x;
        System.out.println(x);
        int y = (x = 3) * x + (x += 4);
        System.out.println(x + " " + y);
        int[] a = {0, 0, 0, 0};
        int i = 0;
        a[i] = i = 2;
        System.out.println(i);
        Counter counter = new Counter().add(next()).add(next());
        System.out.println(counter.count() + " " + counter.id + " " + new Counter().count() + " " + Counter.created);
        System.out.println(sum() + sum(1) + sum(1, 2, 3) + sum(new int[] {4, 5}));
        boolean b = false;
        if (b = next() > 3 && next() > 0 || next() < 0) {
            System.out.println("b " + b + tick);
        }
        String s = null;
        System.out.println((s == null || s.length() == 0) + " " + (s != null && s.length() > 0));
        List<String> names = new ArrayList<>(Arrays.asList("c", "a", "b"));
        names.add(names.remove(0));
        names.add(1, name(next()));
        System.out.println(names + names.get(names.size() - 1));
        StringBuilder builder = new StringBuilder();
        for (int k = 0; k < 3; k++) {
            for (int m = k; m < 3; m++) {
                if (m == 2) {
                    break;
                }
                builder.append(k).append(m).append(k < m ? "<" : "=").append(',');
            }
        }
        System.out.println(builder);
    }

    void belonging() {
        Inner inner = new Inner();
        Inner.Deep deep = inner.new Deep();
        System.out.println(deep.sum());
        deep.change();
        System.out.println(deep.sum() + " " + value + " " + inner.value + " " + this.trace);
        int value = 50;
        value++;
        System.out.println(value + this.value);
        {
            String text = "inner block";
            System.out.println(text);
        }
        int text = 3;
        System.out.println(text);
        for (int n = 0; n < 2; n++) {
            int square = n * n;
            System.out.print(square + " ");
        }
        String square = "square";
        System.out.println(square);
        NAMES.put(1, "one");
        System.out.println(NAMES.get(1) + NAMES.get(2) + NAMES.getOrDefault(2, "two") + NAMES.containsValue("one"));
    }

    public static void main(String[] args) throws Exception {
        evaluation();
        new Orders().belonging();
        try {
            throw new Refused("refused", 2);
        } catch (JMSException e) {
            System.out.println(e.getMessage() + " " + e.getErrorCode() + " " + (e instanceof Refused));
        }
        try {
            Object o = new Counter();
            Inner wrong = (Inner) o;
            System.out.println(wrong.value);
        } catch (ClassCastException e) {
            System.out.println("no Inner");
        }
        long start = System.currentTimeMillis();
        long nanos = System.nanoTime();
        long took = System.currentTimeMillis() - start;
        System.out.println((took >= 0) + " " + (took < 60000) + " " + (System.nanoTime() - nanos >= 0) + " " + (start > 1600000000000L));
        double average = tick / 2;
        System.out.println(average + " " + tick / 2.0 + " " + (double) tick / 4 + " " + (float) tick / 3 + " " + 7 / 2 * 2.0f);
        int[] tally = new int[4];
        for (String word : "to be or not to be that is".split(" ")) {
            tally[word.length() % 4]++;
            tally[word.length() - 1] += 10;
        }
        System.out.println(Arrays.toString(tally) + java.util.UUID.randomUUID().toString().length());
        System.out.println(new String("h\u00e9".getBytes("UTF-8"), "ISO-8859-1") + new java.util.Random().nextInt(1));
        int hours = 7265 / 3600, minutes = 7265 % 3600 / 60, seconds = 7265 % 60;
        System.out.println(String.format("%02d:%02d:%02d", hours, minutes, seconds) + " " + hours + ":" + minutes);
    }
}
