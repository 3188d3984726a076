import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.naming.Context;
import javax.naming.NameNotFoundException;
import javax.naming.OperationNotSupportedException;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.JmsQueue;
import org.apache.qpid.jms.JmsTopic;
import org.objectweb.jtests.jms.admin.Admin;

/**
 * Gives Joram's tests factories and destinations of Qpid JMS; the broker is the one of the system property broker.url, and makes
 * destinations when they are first used. The tests name the same queues again and again, and expect them empty: so a queue is emptied
 * before a test has it, and afterwards.
 */
public class JoramAmqpAdmin implements Admin {
    private final Map<String, Object> objects = new ConcurrentHashMap<>();

    public String getName() {
        return "AMQP 1.0";
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

    private static JmsConnectionFactory factory() {
        JmsConnectionFactory factory = new JmsConnectionFactory(System.getProperty("broker.url"));
        factory.setUsername("guest");
        factory.setPassword("guest");
        return factory;
    }

    private static void empty(String name) {
        try (Connection connection = factory().createConnection()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(name));
            connection.start();
            while (consumer.receiveNoWait() != null) {
                // is gone
            }
        } catch (JMSException error) {
            throw new IllegalStateException(error);
        }
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
        empty(name);
        objects.put(name, new JmsQueue(name));
    }

    public void createTopic(String name) {
        objects.put(name, new JmsTopic(name));
    }

    public void deleteQueue(String name) {
        objects.remove(name);
        empty(name);
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
