import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.JMSException;
import javax.naming.Context;
import javax.naming.NameNotFoundException;
import javax.naming.OperationNotSupportedException;
import org.fusesource.stomp.jms.StompJmsConnection;
import org.fusesource.stomp.jms.StompJmsConnectionFactory;
import org.fusesource.stomp.jms.StompJmsQueue;
import org.fusesource.stomp.jms.StompJmsTopic;
import org.objectweb.jtests.jms.admin.Admin;

/** Gives Joram's tests factories and destinations of stompjms; the broker is the one of the system property broker.url. */
public class JoramAdmin implements Admin {
    private static final AtomicInteger NUMBERS = new AtomicInteger();
    private static StompJmsConnection naming;
    private final Map<String, Object> objects = new ConcurrentHashMap<>();

    public String getName() {
        return "pyjms";
    }

    public Context createContext() {
        return (Context) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {Context.class}, (self, method, arguments) -> {
            switch (method.getName()) {
                case "lookup":
                    Object found = objects.get(arguments[0].toString());
                    if (found == null) {
                        throw new NameNotFoundException(arguments[0].toString());
                    }
                    return found;
                case "close":
                    return null;
                default:
                    throw new OperationNotSupportedException(method.getName());
            }
        });
    }

    private static StompJmsConnectionFactory factory() {
        StompJmsConnectionFactory factory = new StompJmsConnectionFactory();
        factory.setBrokerURI(System.getProperty("broker.url"));
        factory.setUsername("guest"); // as most clients do
        factory.setPassword("guest");
        return factory;
    }

    /** Destinations ask a connection how the broker writes their names. */
    private static synchronized StompJmsConnection naming() {
        try {
            if (naming == null) {
                naming = (StompJmsConnection) factory().createConnection();
            }
            return naming;
        } catch (JMSException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Each test has destinations of its own. */
    private static String fresh(String name) {
        return name + "-" + NUMBERS.incrementAndGet();
    }

    public void createConnectionFactory(String name) {
        objects.put(name, factory());
    }

    public void createQueueConnectionFactory(String name) {
        objects.put(name, factory());
    }

    public void createTopicConnectionFactory(String name) {
        objects.put(name, factory());
    }

    public void createQueue(String name) {
        objects.put(name, new StompJmsQueue(naming(), fresh(name)));
    }

    public void createTopic(String name) {
        objects.put(name, new StompJmsTopic(naming(), fresh(name)));
    }

    public void deleteQueue(String name) {
        objects.remove(name);
    }

    public void deleteTopic(String name) {
        objects.remove(name);
    }

    public void deleteConnectionFactory(String name) {
        objects.remove(name);
    }

    public void deleteQueueConnectionFactory(String name) {
        objects.remove(name);
    }

    public void deleteTopicConnectionFactory(String name) {
        objects.remove(name);
    }

    public void startServer() {}

    public void stopServer() {}

    public void start() {}

    public void stop() {}
}
