import java.util.Arrays;

/** Texts, builders, formats. */
public class Texts {
    private static String nothing() {
        return null;
    }

    static void look(String s) {
        System.out.println(s.length() + " " + s.isEmpty() + " '" + s.trim() + "'");
        System.out.println(s.toUpperCase() + s.toLowerCase());
        System.out.println(s.indexOf("o") + " " + s.indexOf('o', 3) + " " + s.lastIndexOf("o") + " " + s.contains("fox"));
        System.out.println(s.replace('o', '0') + s.replace("the", "a"));
        System.out.println(s.startsWith("the") + " " + s.endsWith("dog ") + " " + s.equals("the") + " " + s.equalsIgnoreCase("THE"));
        System.out.println(Arrays.asList(s.split(" ")));
        System.out.println(s.split(",").length + " " + Arrays.asList(s.split(",", 2)));
        System.out.println("abc".compareTo(s) + " " + s.compareTo("the"));
        for (int i = -1; i < 3; i++) {
            try {
                System.out.println(s.charAt(i) + s.substring(i) + s.substring(1, i + 1));
            } catch (IndexOutOfBoundsException e) {
                System.out.println("out of bounds at " + i);
            }
        }
    }

    public static void main(String[] args) {
        look("the fox, the dog ");
        look("a,b,,c,,");
        look("xy");
        look(" , ");
        String s = nothing();
        System.out.println("null: " + s);
        s += "x";
        System.out.println(s);
        try {
            System.out.println(nothing().length());
        } catch (NullPointerException e) {
            System.out.println("null has no length");
        }
        try {
            System.out.println(nothing().equals("x"));
        } catch (NullPointerException e) {
            System.out.println("null equals nothing");
        }
        try {
            switch (nothing()) {
                case "a":
                    System.out.println("a");
                    break;
                default:
                    System.out.println("default");
            }
        } catch (NullPointerException e) {
            System.out.println("no switch over null");
        }
        System.out.println("x".equals(nothing()));
        StringBuilder builder = new StringBuilder();
        builder.append(1).append('c').append("text").append(2.5).append(true).append(nothing()).append(3f).append(10L);
        System.out.println(builder.length() + builder.toString());
        StringBuffer buffer = new StringBuffer("abc");
        buffer.insert(1, 42).reverse();
        buffer.setLength(3);
        System.out.println(buffer);
        System.out.println("tab\tquote\"slash\\ unicode \u00e9 \u20ac {braces} %s");
        System.out.println(String.format("%d|%5d|%-5d|%05d|%,d|%+d", 42, 42, 42, 42, 1234567, 42));
        System.out.println(String.format("%s|%10s|%-10s|%.2s|%S", "text", "text", "text", "text", "text"));
        System.out.println(String.format("%c|%b|%%|%x|%X|%s|%s|%s", 'c', true, 255, 255, 1.0, null, 1.5f));
        System.out.println(String.format("%.0f|%.1f|%.3f|%,.2f", 2.5, 0.25, 1.0005, 1234567.891));
        System.out.printf("%s and %s%n", "one", 2);
        System.out.print("no end");
        System.out.print(1);
        System.out.print('c');
        System.out.println();
        System.out.println(1.0f);
        System.out.println((Object) null);
        System.out.println(new char[] {'o', 'k'}.length);
        System.out.println(String.valueOf(3) + String.valueOf(3.0) + String.valueOf('3') + String.valueOf(true));
        System.out.println(String.join("-", "a", "b") + "ab".concat("cd") + "ab".repeat(3));
        char[] letters = "hello".toCharArray();
        letters[0] = 'J';
        System.out.println(new String(letters));
        byte[] bytes = "h\u00e9llo".getBytes(java.nio.charset.StandardCharsets.UTF_8);
        System.out.println(bytes.length + " " + bytes[1] + " " + bytes[0]);
        bytes = new byte[] {1, -2, 127, (byte) 200};
        bytes[0] = (byte) (bytes[1] * 2);
        int sum = 0;
        for (byte each : bytes) {
            sum += each;
        }
        System.out.println(sum + " " + bytes[0] + " " + bytes[3] + " " + (bytes[3] & 0xff));
        Integer boxed = Integer.valueOf(5);
        Integer none = null;
        System.out.println(boxed + 1 + " " + none + " " + boxed.equals(5) + " " + boxed.intValue());
        try {
            int unboxed = none;
            System.out.println(unboxed);
        } catch (NullPointerException e) {
            System.out.println("null is no int");
        }
        System.out.println(Boolean.parseBoolean("TRUE") + " " + Boolean.valueOf("yes") + " " + Long.valueOf(7) + Double.valueOf(1));
        Object[] things = {1, 2L, 3.0, 4f, 'c', "s", true, null};
        for (Object each : things) {
            String kind = each instanceof Integer ? "Integer" : each instanceof Long ? "Long" : each instanceof Float ? "Float"
                    : each instanceof Double ? "Double" : each instanceof String ? "String" : "other";
            System.out.println(each + " " + kind);
        }
        System.out.println(things[0].equals(1) + " " + things[1].equals(2L) + " " + things[0].equals(things[1]));
    }
}
