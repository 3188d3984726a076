/** Arithmetic, as Java has it. */
public class Numbers {
    static int intOf(String text) {
        return Integer.parseInt(text);
    }

    static long longOf(String text) {
        return Long.parseLong(text);
    }

    static double doubleOf(String text) {
        return Double.parseDouble(text);
    }

    static void integers(int a, int b) {
        System.out.println(a + " and " + b);
        System.out.println(a + b);
        System.out.println(a - b);
        System.out.println(a * b);
        System.out.println(a / b);
        System.out.println(a % b);
        System.out.println(-a);
        System.out.println(a & b);
        System.out.println(a | b);
        System.out.println(a ^ b);
        System.out.println(~a);
        System.out.println(a << b);
        System.out.println(a >> b);
        System.out.println(a >>> b);
        System.out.println(a << 3);
        System.out.println(a >> 3);
        System.out.println(a >>> 3);
        System.out.println((byte) a);
        System.out.println((short) a);
        System.out.println((long) a * b);
        System.out.println(a * 1.5);
        System.out.println((float) (a % 1000));
        System.out.println((double) a / b);
        System.out.println(a + b * 2 - (a - b));
        System.out.println((a + b) * (a - b));
        System.out.println(a - (b - a));
        System.out.println(a == b);
        System.out.println(a < b && a != 0 || b > a);
        System.out.println(!(a < b));
        System.out.println(Math.abs(a));
        System.out.println(Math.max(a, b) + ":" + Math.min(a, b));
        System.out.println(Integer.toHexString(a));
    }

    static void longs(long a, long b) {
        System.out.println(a + b);
        System.out.println(a * b);
        System.out.println(a / b);
        System.out.println(a % b);
        System.out.println((int) a);
        System.out.println(a << 40);
        System.out.println(a >>> 2);
        System.out.println(a >> 2);
        System.out.println((double) (a / 1000));
        System.out.println((float) (a % 1000));
        System.out.println(a % 1000 * 2.0);
        System.out.println(a == b * 1.0);
    }

    static void doubles(double a, double b) {
        System.out.println(a + " and " + b);
        System.out.println(a + b);
        System.out.println(a / b);
        System.out.println(a % b);
        System.out.println((int) a);
        System.out.println((long) a);
        System.out.println((float) a);
        System.out.println((int) (a * b));
        System.out.println((byte) a);
        System.out.println(a < b);
        System.out.println(a == b);
        System.out.println(a != a);
        System.out.println(String.format("%.2f|%8.3f|%-8.1f|%f", a, a, a, a));
    }

    static void floats(float a, float b) {
        System.out.println(a + b);
        System.out.println(a * b);
        System.out.println(a / b);
        System.out.println(a + 1);
        System.out.println(a + 1.0);
        System.out.println(a * 1000000.0f);
        System.out.println("float: " + a);
        double d = a;
        System.out.println(d);
    }

    static void characters(char c) {
        System.out.println(c);
        System.out.println(c + 1);
        System.out.println((char) (c + 1));
        System.out.println("" + c + 1);
        System.out.println(c + "1");
        System.out.println((int) c);
        System.out.println(c >= 'a' && c <= 'z');
        System.out.println(c == 'a');
        System.out.println(c == 97);
        System.out.println(c - 'a');
        System.out.println('a' + 'b' + "c");
        System.out.println("c" + 'a' + 'b');
        c++;
        System.out.println(c);
        c += 2;
        System.out.println(c);
        System.out.println(Character.toUpperCase(c));
        System.out.println(Character.isDigit(c) + " " + Character.isLetter(c));
    }

    static int hash(String text) {
        int h = 17;
        for (int i = 0; i < text.length(); i++) {
            h = 31 * h + text.charAt(i);
        }
        return h;
    }

    static void assignments() {
        int i = 10;
        i += 3.7;
        System.out.println(i);
        i -= 1;
        i *= 2;
        i /= 5;
        System.out.println(i);
        i <<= 30;
        System.out.println(i);
        i %= 7;
        System.out.println(i);
        byte b = 127;
        b++;
        System.out.println(b);
        b += 200;
        System.out.println(b);
        short s = 32767;
        s += 1;
        System.out.println(s);
        long l = Integer.MAX_VALUE;
        l++;
        System.out.println(l);
        int m = Integer.MAX_VALUE;
        m++;
        System.out.println(m);
        m = Integer.MIN_VALUE;
        m--;
        System.out.println(m + " " + Math.abs(Integer.MIN_VALUE));
        double d = 5;
        System.out.println(d);
        d += 1;
        d /= 4;
        System.out.println(d);
        float f = 1;
        f /= 3;
        System.out.println(f);
        int x = 5;
        int y = x++ + ++x;
        System.out.println(x + " " + y);
        int z = x-- - --x;
        System.out.println(x + " " + z);
        int u, v;
        u = v = 7;
        System.out.println(u + v);
        boolean t = true;
        t &= false;
        t |= true;
        System.out.println(t ^ true);
        final int big = 1000000;
        System.out.println(big * big);
        System.out.println(1L * big * big);
        System.out.println(0xFF + 0x7fffffff + 010 + 0b101);
        System.out.println(0xFFFFFFFF);
        System.out.println(1_000_000 * 3);
        System.out.println(1 + 2 + "3" + 4 + 5);
        System.out.println("a" + (1 + 2) + 'b' + 1.0 + 2f + true + null + 10L);
        System.out.println(5 / 2 + 5 / 2.0 + 5 % 3);
        System.out.println((5 > 3 ? 1 : 2.0) + " " + (5 < 3 ? 'x' : 'y'));
        System.out.println((byte) 200 + (byte) 0xff);
        System.out.println((char) 65 + "" + (char) ('A' + 2));
        System.out.println(10 - 2 - 3 + " " + (10 - (2 - 3)));
        System.out.println(2 + 3 == 5 ? "yes" : "no");
    }

    public static void main(String[] args) {
        integers(7, 2);
        integers(-7, 2);
        integers(7, -2);
        integers(2147483647, 33);
        integers(-2147483648, -1);
        integers(123456789, 987654321);
        longs(9223372036854775807L, 3);
        longs(-9223372036854775808L, -1);
        longs(4611686018427387905L, 1000000007L);
        doubles(1.5, 0.25);
        doubles(-7.9, 2);
        doubles(1e10, 3);
        doubles(1e300, -0.0);
        doubles(0.1, 0.2);
        doubles(0.001, 1234567.0);
        doubles(0.0009999, 12345678.0);
        doubles(100, 0.0);
        doubles(0.0, 0.0);
        doubles(1.005, 2.675);
        doubles(0.125, 1e-5);
        doubles(1234567.5, 1.0E-10);
        floats(0.1f, 0.2f);
        floats(16777216f, 1f);
        floats(1000f, 0.5f);
        characters('a');
        characters('Z');
        characters('7');
        assignments();
        System.out.println(hash("the quick brown fox jumps over the lazy dog"));
        System.out.println(intOf("-42") + longOf("4000000000") + doubleOf("1e3"));
        String[] wrong = {"", "x", "99999999999", "1.5", " 1"};
        for (String each : wrong) {
            try {
                System.out.println(intOf(each));
            } catch (NumberFormatException e) {
                System.out.println("no number: '" + each + "'");
            }
        }
        try {
            System.out.println(1 / intOf("0"));
        } catch (ArithmeticException e) {
            System.out.println(e.getMessage());
        }
        try {
            System.out.println(1 % intOf("0"));
        } catch (RuntimeException e) {
            System.out.println(e);
        }
    }
}
