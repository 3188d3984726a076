import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * {@code Rate URL}: does the workloads that its standard input names, one a line, as WORKLOAD QUEUE COUNT; prints the seconds that each took.
 * One process does them all, so that Java has compiled what is measured.
 */
public class Rate {
    private static final String TEXT = "The quick brown fox jumps over the lazy dog. ".repeat(23).substring(0, 1024);
    private static final long PATIENCE_MS = 60_000;
    private static final int BATCH = 100;

    private final String url;

    Rate(String url) {
        this.url = url;
    }

    public static void main(String[] arguments) throws Exception {
        Rate rate = new Rate(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            System.out.println(rate.measure(words[0], words[1], Integer.parseInt(words[2])));
        }
        System.exit(0);
    }

    private Connection connect(String options) throws JMSException {
        JmsConnectionFactory factory = new JmsConnectionFactory(url + options);
        factory.setUsername("guest");
        factory.setPassword("guest");
        Connection connection = factory.createConnection();
        connection.start();
        return connection;
    }

    private double measure(String workload, String queue, int count) throws Exception {
        boolean isTransacted = workload.endsWith("-batches");
        try (Connection connection = connect(isTransacted ? "" : "?jms.forceSyncSend=true")) {
            Session session = connection.createSession(isTransacted, isTransacted ? Session.SESSION_TRANSACTED : Session.AUTO_ACKNOWLEDGE);
            Queue destination = session.createQueue(queue);
            switch (workload) {
                case "send-transient":
                    return send(session, destination, count, DeliveryMode.NON_PERSISTENT);
                case "send-durable":
                case "send-batches":
                    return send(session, destination, count, DeliveryMode.PERSISTENT);
                case "receive":
                case "receive-batches":
                    return receive(session, destination, count);
                case "request":
                    return request(session, destination, count);
                default:
                    throw new IllegalArgumentException(workload);
            }
        }
    }

    private static TextMessage message(Session session) throws JMSException {
        TextMessage message = session.createTextMessage(TEXT);
        message.setIntProperty("i1", 1);
        message.setIntProperty("i2", -20000);
        message.setIntProperty("i3", Integer.MAX_VALUE);
        message.setStringProperty("s1", "alpha");
        message.setStringProperty("s2", "some longer property value");
        message.setStringProperty("s3", "EUR");
        message.setBooleanProperty("b1", true);
        message.setBooleanProperty("b2", false);
        message.setDoubleProperty("d1", 3.14159);
        message.setDoubleProperty("d2", -1e-9);
        return message;
    }

    private static Message expect(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(PATIENCE_MS);
        if (message == null) {
            throw new IllegalStateException("no message came");
        }
        return message;
    }

    private static double since(long begin) {
        return (System.nanoTime() - begin) / 1e9;
    }

    private static double send(Session session, Queue queue, int count, int mode) throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryMode(mode);
        long begin = System.nanoTime();
        for (int sent = 1; sent <= count; sent++) {
            producer.send(message(session));
            if (session.getTransacted() && sent % BATCH == 0) {
                session.commit();
            }
        }
        return since(begin);
    }

    private static double receive(Session session, Queue queue, int count) throws JMSException {
        long begin = System.nanoTime();
        MessageConsumer consumer = session.createConsumer(queue);
        for (int received = 1; received <= count; received++) {
            expect(consumer);
            if (session.getTransacted() && received % BATCH == 0) {
                session.commit();
            }
        }
        return since(begin);
    }

    private double request(Session session, Queue queue, int count) throws JMSException {
        try (Connection other = connect("")) {
            Session server = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer answers = server.createProducer(null);
            answers.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            server.createConsumer(queue).setMessageListener(request -> {
                try {
                    TextMessage answer = message(server);
                    answer.setJMSCorrelationID(request.getJMSMessageID());
                    answers.send(request.getJMSReplyTo(), answer);
                } catch (JMSException error) {
                    throw new IllegalStateException(error);
                }
            });
            TemporaryQueue mine = session.createTemporaryQueue();
            MessageConsumer consumer = session.createConsumer(mine);
            MessageProducer producer = session.createProducer(queue);
            producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            long begin = System.nanoTime();
            for (int asked = 0; asked < count; asked++) {
                TextMessage request = message(session);
                request.setJMSReplyTo(mine);
                producer.send(request);
                expect(consumer);
            }
            return since(begin);
        }
    }
}
