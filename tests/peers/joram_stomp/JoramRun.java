import java.io.PrintStream;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Enumeration;
import java.util.TreeSet;
import junit.framework.TestCase;
import junit.framework.TestFailure;
import junit.framework.TestResult;

/** Runs Joram's tests one by one, and writes a line for each: its name, "passed" or "failed" or "hung", and why, with tabs between. */
public class JoramRun {
    private static final String PACKAGE = "org.objectweb.jtests.jms.conform.";
    private static final String[] CLASSES = {
        "connection.ConnectionTest", "connection.TopicConnectionTest",
        "message.MessageBodyTest", "message.MessageDefaultTest", "message.MessageTypeTest", "message.headers.MessageHeaderTest",
        "message.properties.JMSXPropertyTest", "message.properties.MessagePropertyConversionTest", "message.properties.MessagePropertyTest",
        "queue.QueueBrowserTest", "queue.TemporaryQueueTest",
        "selector.SelectorSyntaxTest", "selector.SelectorTest",
        "session.QueueSessionTest", "session.SessionTest", "session.TopicSessionTest", "session.UnifiedSessionTest",
        "topic.TemporaryTopicTest",
    };
    private static final long PATIENCE_MS = 20_000;

    public static void main(String[] arguments) throws Exception {
        try (PrintStream out = new PrintStream(arguments[0], "UTF-8")) {
            for (String name : CLASSES) {
                Class<? extends TestCase> kind = Class.forName(PACKAGE + name).asSubclass(TestCase.class);
                TreeSet<String> tests = new TreeSet<>();
                for (Method method : kind.getMethods()) {
                    if (method.getName().startsWith("test") && method.getParameterCount() == 0) {
                        tests.add(method.getName());
                    }
                }
                for (String test : tests) {
                    out.println(kind.getSimpleName() + "." + test + "\t" + run(kind.getConstructor(String.class).newInstance(test)));
                    out.flush();
                }
            }
        }
        System.exit(0); // what a test has left open does not keep it
    }

    private static String run(TestCase test) throws InterruptedException {
        TestResult result = new TestResult();
        Thread thread = new Thread(() -> test.run(result));
        thread.setDaemon(true);
        thread.start();
        thread.join(PATIENCE_MS);
        if (thread.isAlive()) {
            StackTraceElement[] stack = thread.getStackTrace();
            thread.interrupt();
            return "hung\t" + (stack.length == 0 ? "" : stack[0]);
        }
        Enumeration<TestFailure> failures = result.errorCount() > 0 ? result.errors() : result.failures();
        for (TestFailure failure : Collections.list(failures)) {
            return "failed\t" + String.valueOf(failure.thrownException()).replaceAll("\\s+", " ");
        }
        return "passed\t";
    }
}
