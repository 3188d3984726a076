import jakarta.jms.BytesMessage;
import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.InvalidClientIDException;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.InvalidSelectorException;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * {@code Checks URL [NAME…]}: what a user of JMS 2.0 expects of a broker; each public method is a check, and prints its name, "passed" or
 * "failed" and why, with tabs between. All names of destinations begin with that of the check, so that a broker may be used twice.
 */
public class Checks {
    private static final long PATIENCE_MS = 10_000;
    private static final long QUIET_MS = 300;
    /** Property by which Qpid JMS takes the outcome with which it settles. */
    private static final String OUTCOME = "JMS_AMQP_ACK_TYPE";
    private static final int ACCEPTED = 1;
    private static final int REJECTED = 2;
    private static final int RELEASED = 3;
    private static final int FAILED = 4;
    private static final int UNDELIVERABLE = 5;

    private final String url;
    private final String name;
    private final List<AutoCloseable> opened = new ArrayList<>();

    Checks(String url, String name) {
        this.url = url;
        this.name = name + "-" + Long.toHexString(System.nanoTime());
    }

    public static void main(String[] arguments) throws Exception {
        Set<String> wanted = new HashSet<>(Arrays.asList(arguments).subList(1, arguments.length));
        Set<String> names = new TreeSet<>();
        for (Method method : Checks.class.getMethods()) {
            if (method.getDeclaringClass() == Checks.class && method.getParameterCount() == 0) {
                names.add(method.getName());
            }
        }
        for (String name : names) {
            if (wanted.isEmpty() || wanted.contains(name)) {
                System.out.println(name + "\t" + run(arguments[0], name));
            }
        }
        System.exit(0); // what a check has left open does not keep it
    }

    private static String run(String url, String name) throws Exception {
        String[] outcome = {"failed\tit hangs"};
        Thread thread = new Thread(() -> {
            Checks checks = new Checks(url, name);
            try {
                Checks.class.getMethod(name).invoke(checks);
                outcome[0] = "passed\t";
            } catch (InvocationTargetException error) {
                outcome[0] = "failed\t" + told(error.getCause());
            } catch (ReflectiveOperationException error) {
                outcome[0] = "failed\t" + error;
            } finally {
                checks.close();
            }
        });
        thread.setDaemon(true);
        thread.start();
        thread.join(6 * PATIENCE_MS);
        return thread.isAlive() ? outcome[0] + " at " + Arrays.toString(thread.getStackTrace()) : outcome[0];
    }

    private static String told(Throwable error) {
        StringBuilder text = new StringBuilder(error.toString().replaceAll("\\s+", " "));
        for (StackTraceElement line : error.getStackTrace()) {
            if (line.getClassName().equals("Checks")) {
                text.append(" at line ").append(line.getLineNumber());
            }
        }
        return text.toString();
    }

    private void close() {
        for (AutoCloseable each : opened) {
            try {
                each.close();
            } catch (Exception error) {
                // it was closed, or its peer is gone: the check has ended
            }
        }
    }

    // What checks use

    private JmsConnectionFactory factory() {
        JmsConnectionFactory factory = new JmsConnectionFactory(url);
        factory.setUsername("guest");
        factory.setPassword("guest");
        return factory;
    }

    private Connection connect() throws JMSException {
        return connect(null);
    }

    private Connection connect(String clientId) throws JMSException {
        Connection connection = factory().createConnection();
        opened.add(connection);
        if (clientId != null) {
            connection.setClientID(clientId);
        }
        connection.start();
        return connection;
    }

    private Session session() throws JMSException {
        return connect().createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    private static void send(Session session, Destination destination, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
    }

    private static String text(Message message) throws JMSException {
        return message == null ? null : message.getBody(String.class);
    }

    private static String next(MessageConsumer consumer) throws JMSException {
        return text(consumer.receive(PATIENCE_MS));
    }

    private static List<String> rest(MessageConsumer consumer) throws JMSException {
        List<String> texts = new ArrayList<>();
        for (Message message = consumer.receiveNoWait(); message != null; message = consumer.receiveNoWait()) {
            texts.add(text(message));
        }
        return texts;
    }

    private static void same(Object expected, Object found) {
        boolean isSame = expected instanceof byte[] ? Arrays.equals((byte[]) expected, (byte[]) found) : expected == null ? found == null : expected.equals(found);
        if (!isSame) {
            throw new AssertionError("expected " + shown(expected) + ", found " + shown(found));
        }
    }

    private static String shown(Object value) {
        return value == null ? "null" : value.getClass().getSimpleName() + " " + (value instanceof byte[] ? Arrays.toString((byte[]) value) : value);
    }

    private interface Action {
        void run() throws Exception;
    }

    private static void fails(Class<? extends Exception> kind, Action action) {
        try {
            action.run();
        } catch (Exception error) {
            if (kind.isInstance(error)) {
                return;
            }
            throw new AssertionError("expected " + kind.getSimpleName() + ", found " + error, error);
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", and nothing was raised");
    }

    // Messages

    private static void setProperties(Message message) throws JMSException {
        message.setBooleanProperty("truth", true);
        message.setByteProperty("aByte", Byte.MIN_VALUE);
        message.setShortProperty("aShort", Short.MIN_VALUE);
        message.setIntProperty("anInt", Integer.MIN_VALUE);
        message.setLongProperty("aLong", Long.MIN_VALUE);
        message.setFloatProperty("aFloat", 0.5f);
        message.setDoubleProperty("aDouble", 1e300);
        message.setStringProperty("aString", "grün");
        message.setObjectProperty("nothing", null);
    }

    private static void checkProperties(Message message) throws JMSException {
        same(true, message.getObjectProperty("truth"));
        same(Byte.MIN_VALUE, message.getObjectProperty("aByte"));
        same(Short.MIN_VALUE, message.getObjectProperty("aShort"));
        same(Integer.MIN_VALUE, message.getObjectProperty("anInt"));
        same(Long.MIN_VALUE, message.getObjectProperty("aLong"));
        same(0.5f, message.getObjectProperty("aFloat"));
        same(1e300, message.getObjectProperty("aDouble"));
        same("grün", message.getObjectProperty("aString"));
        same(true, message.propertyExists("nothing"));
        same(null, message.getObjectProperty("nothing"));
    }

    static List<Message> allTypes(Session session) throws JMSException {
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeInt(7);
        bytes.writeUTF("tea");
        MapMessage map = session.createMapMessage();
        map.setBoolean("truth", true);
        map.setByte("aByte", (byte) 1);
        map.setShort("aShort", (short) 2);
        map.setChar("aChar", 'ü');
        map.setInt("anInt", 3);
        map.setLong("aLong", 4);
        map.setFloat("aFloat", 0.5f);
        map.setDouble("aDouble", 1e300);
        map.setString("aString", "grün");
        map.setBytes("bytes", new byte[] {0, -1});
        StreamMessage stream = session.createStreamMessage();
        stream.writeBoolean(true);
        stream.writeByte((byte) 1);
        stream.writeShort((short) 2);
        stream.writeChar('ü');
        stream.writeInt(3);
        stream.writeLong(4);
        stream.writeFloat(0.5f);
        stream.writeDouble(1e300);
        stream.writeString("grün");
        stream.writeBytes(new byte[] {0, -1});
        List<Message> all = new ArrayList<>(Arrays.asList(session.createTextMessage("grün"), bytes, map, stream));
        all.add(session.createObjectMessage(new ArrayList<>(Arrays.asList("one", 2))));
        all.add(session.createMessage());
        all.add(session.createTextMessage());
        for (Message each : all) {
            setProperties(each);
        }
        return all;
    }

    static void checkAllTypes(MessageConsumer consumer, boolean hasObject) throws JMSException {
        TextMessage text = (TextMessage) consumer.receive(PATIENCE_MS);
        same("grün", text.getText());
        checkProperties(text);
        BytesMessage bytes = (BytesMessage) consumer.receive(PATIENCE_MS);
        same(9L, bytes.getBodyLength());
        same(7, bytes.readInt());
        same("tea", bytes.readUTF());
        checkProperties(bytes);
        MapMessage map = (MapMessage) consumer.receive(PATIENCE_MS);
        Map<String, Object> expected = new HashMap<>();
        expected.put("truth", true);
        expected.put("aByte", (byte) 1);
        expected.put("aShort", (short) 2);
        expected.put("aChar", 'ü');
        expected.put("anInt", 3);
        expected.put("aLong", 4L);
        expected.put("aFloat", 0.5f);
        expected.put("aDouble", 1e300);
        expected.put("aString", "grün");
        for (Map.Entry<String, Object> each : expected.entrySet()) {
            same(each.getValue(), map.getObject(each.getKey()));
        }
        same(new byte[] {0, -1}, map.getBytes("bytes"));
        same(10, Collections.list(map.getMapNames()).size());
        checkProperties(map);
        StreamMessage stream = (StreamMessage) consumer.receive(PATIENCE_MS);
        for (Object each : new Object[] {true, (byte) 1, (short) 2, 'ü', 3, 4L, 0.5f, 1e300, "grün", new byte[] {0, -1}}) {
            same(each, stream.readObject());
        }
        checkProperties(stream);
        if (hasObject) {
            ObjectMessage object = (ObjectMessage) consumer.receive(PATIENCE_MS);
            same(Arrays.asList("one", 2), object.getObject());
            checkProperties(object);
        }
        Message plain = consumer.receive(PATIENCE_MS);
        same(false, plain instanceof TextMessage || plain instanceof BytesMessage);
        checkProperties(plain);
        TextMessage none = (TextMessage) consumer.receive(PATIENCE_MS);
        same(null, none.getText());
        checkProperties(none);
    }

    public void typesOfMessagesAndProperties() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        for (Message each : allTypes(session)) {
            producer.send(each);
        }
        checkAllTypes(session.createConsumer(queue), true);
    }

    public void headers() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        TextMessage message = session.createTextMessage("x");
        message.setJMSCorrelationID("correlated");
        message.setJMSType("order");
        message.setJMSReplyTo(session.createTopic(name + "-answers"));
        message.setStringProperty("JMSXGroupID", "group");
        message.setIntProperty("JMSXGroupSeq", 7);
        MessageProducer producer = session.createProducer(queue);
        long before = System.currentTimeMillis();
        producer.send(message, DeliveryMode.NON_PERSISTENT, 9, 3_600_000);
        Message found = session.createConsumer(queue).receive(PATIENCE_MS);
        same(message.getJMSMessageID(), found.getJMSMessageID());
        same("correlated", found.getJMSCorrelationID());
        same("order", found.getJMSType());
        same(queue, found.getJMSDestination());
        same(session.createTopic(name + "-answers"), found.getJMSReplyTo());
        same(DeliveryMode.NON_PERSISTENT, found.getJMSDeliveryMode());
        same(9, found.getJMSPriority());
        same(message.getJMSExpiration(), found.getJMSExpiration());
        same(message.getJMSTimestamp(), found.getJMSTimestamp());
        same(true, found.getJMSTimestamp() >= before);
        same(false, found.getJMSRedelivered());
        same(1, found.getIntProperty("JMSXDeliveryCount"));
        same("group", found.getStringProperty("JMSXGroupID"));
        same(7, found.getIntProperty("JMSXGroupSeq"));
    }

    public void bytesOfCorrelationAndUser() throws Exception {
        JmsConnectionFactory factory = factory();
        factory.setPopulateJMSXUserID(true);
        Connection connection = factory.createConnection();
        opened.add(connection);
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        Message message = session.createMessage();
        message.setJMSCorrelationIDAsBytes(new byte[] {0, -1, 7});
        session.createProducer(queue).send(message);
        Message found = session.createConsumer(queue).receive(PATIENCE_MS);
        same(new byte[] {0, -1, 7}, found.getJMSCorrelationIDAsBytes());
        same("guest", found.getStringProperty("JMSXUserID"));
    }

    public void largeMessages() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        byte[] content = new byte[3_000_000];
        for (int place = 0; place < content.length; place++) {
            content[place] = (byte) (place * 31 >> 3);
        }
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(content);
        session.createProducer(queue).send(message);
        BytesMessage found = (BytesMessage) session.createConsumer(queue).receive(PATIENCE_MS);
        byte[] bytes = new byte[(int) found.getBodyLength()];
        found.readBytes(bytes);
        same(content, bytes);
    }

    public void priorities() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        for (int priority : new int[] {4, 0, 9, 4}) {
            producer.send(session.createTextMessage("" + priority), DeliveryMode.PERSISTENT, priority, 0);
        }
        MessageConsumer consumer = session.createConsumer(queue);
        for (String expected : new String[] {"9", "4", "4", "0"}) {
            same(expected, next(consumer));
        }
    }

    // Acknowledging

    public void clientAcknowledgeAndRecover() throws Exception {
        Connection connection = connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        send(session, queue, "a", "b", "c");
        MessageConsumer consumer = session.createConsumer(queue);
        same("a", next(consumer));
        same("b", next(consumer));
        session.recover();
        Message again = consumer.receive(PATIENCE_MS);
        same("a", text(again));
        same(true, again.getJMSRedelivered());
        same(2, again.getIntProperty("JMSXDeliveryCount"));
        same("b", next(consumer));
        again.acknowledge();
        same("c", next(consumer));
        connection.close();
        MessageConsumer other = session().createConsumer(queue);
        Message last = other.receive(PATIENCE_MS);
        same("c", text(last));
        same(true, last.getJMSRedelivered());
        same(Arrays.asList(), rest(other));
    }

    public void duplicatesAreOk() throws Exception {
        Connection connection = connect();
        Session session = connection.createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        send(session, queue, "a", "b");
        MessageConsumer consumer = session.createConsumer(queue);
        same("a", next(consumer));
        same("b", next(consumer));
        connection.close();
        same(Arrays.asList(), rest(session().createConsumer(queue)));
    }

    private void settle(Message message, int outcome) throws JMSException {
        message.setIntProperty(OUTCOME, outcome);
        message.acknowledge();
    }

    private Message settled(int outcome) throws JMSException {
        Connection connection = connect();
        Session session = connection.createSession(false, 101); // each message by itself, in Qpid JMS
        Queue queue = session.createQueue(name);
        send(session, queue, "a", "b");
        MessageConsumer consumer = session.createConsumer(queue);
        settle(consumer.receive(PATIENCE_MS), outcome);
        connection.close();
        return session().createConsumer(queue).receive(PATIENCE_MS);
    }

    public void settledAsAccepted() throws Exception {
        same("b", text(settled(ACCEPTED)));
    }

    public void settledAsRejected() throws Exception {
        same("b", text(settled(REJECTED)));
    }

    public void settledAsReleased() throws Exception {
        Message again = settled(RELEASED);
        same("a", text(again));
        same(1, again.getIntProperty("JMSXDeliveryCount"));
    }

    public void settledAsFailed() throws Exception {
        Message again = settled(FAILED);
        same("a", text(again));
        same(2, again.getIntProperty("JMSXDeliveryCount"));
        same(true, again.getJMSRedelivered());
    }

    public void notAcknowledgedWhenTheSessionIsClosed() throws Exception {
        Connection connection = connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        send(session, queue, "a", "b");
        same("a", next(session.createConsumer(queue)));
        session.close();
        MessageConsumer consumer = session().createConsumer(queue);
        Message again = consumer.receive(PATIENCE_MS);
        same("a", text(again));
        same(true, again.getJMSRedelivered());
        Message unseen = consumer.receive(PATIENCE_MS); // had been prefetched
        same("b", text(unseen));
        same(false, unseen.getJMSRedelivered());
    }

    public void listeners() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        Session other = session();
        other.createConsumer(queue).setMessageListener(message -> {
            try {
                heard.add(text(message));
            } catch (JMSException error) {
                heard.add(error.toString());
            }
        });
        send(session, queue, "a", "b", "c");
        for (String expected : new String[] {"a", "b", "c"}) {
            same(expected, heard.poll(PATIENCE_MS, TimeUnit.MILLISECONDS));
        }
    }

    // Transactions

    public void transactionsOfSenders() throws Exception {
        Session session = connect().createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(name);
        MessageConsumer consumer = session().createConsumer(queue);
        send(session, queue, "undone");
        session.rollback();
        send(session, queue, "done", "too");
        same(null, consumer.receive(QUIET_MS));
        session.commit();
        same("done", next(consumer));
        same("too", next(consumer));
        same(Arrays.asList(), rest(consumer));
    }

    public void transactionsOfReceivers() throws Exception {
        Connection connection = connect();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(name);
        send(session, queue, "a", "b", "c");
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        same("a", next(consumer));
        same("b", next(consumer));
        session.rollback();
        Message again = consumer.receive(PATIENCE_MS);
        same("a", text(again));
        same(true, again.getJMSRedelivered());
        same("b", next(consumer));
        session.commit();
        same("c", next(consumer)); // of a transaction that the end of its connection rolls back
        connection.close();
        MessageConsumer other = session().createConsumer(queue);
        same("c", next(other));
        same(Arrays.asList(), rest(other));
    }

    public void transactionsOfReceiptsAndSends() throws Exception {
        Session session = connect().createSession(true, Session.SESSION_TRANSACTED);
        Queue in = session.createQueue(name);
        Queue out = session.createQueue(name + "-out");
        List<String> expected = new ArrayList<>();
        for (int number = 0; number < 100; number++) {
            expected.add("" + number);
        }
        send(session, in, expected.toArray(new String[0]));
        session.commit();
        MessageConsumer consumer = session.createConsumer(in);
        MessageProducer producer = session.createProducer(out);
        for (int time = 0; time < 2; time++) {
            for (int number = 0; number < 100; number++) {
                producer.send(session.createTextMessage(next(consumer)));
            }
            if (time == 0) {
                session.rollback();
            } else {
                session.commit();
            }
        }
        MessageConsumer other = session().createConsumer(out);
        List<String> found = new ArrayList<>();
        for (int number = 0; number < 100; number++) {
            found.add(next(other));
        }
        same(expected, found);
        same(Arrays.asList(), rest(other));
    }

    // Selectors

    public void selectors() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        for (int cups = 0; cups < 5; cups++) {
            TextMessage message = session.createTextMessage("" + cups);
            message.setIntProperty("cups", cups);
            message.setStringProperty("kind", cups % 2 == 0 ? "tea" : "coffee");
            message.setJMSType("order-" + cups);
            producer.send(message, DeliveryMode.PERSISTENT, cups, 0);
        }
        MessageConsumer some = session.createConsumer(queue, "cups BETWEEN 1 AND 3 AND kind LIKE 't%' OR JMSType = 'order-4'");
        same("4", next(some));
        same("2", next(some));
        same(Arrays.asList(), rest(some));
        some.close();
        MessageConsumer others = session.createConsumer(queue, "JMSPriority < 2 AND kind IN ('tea', 'coffee')");
        same("1", next(others));
        same("0", next(others));
        fails(InvalidSelectorException.class, () -> session.createConsumer(queue, "cups = = 2"));
    }

    public void selectorsOnTopics() throws Exception {
        Session session = session();
        Topic topic = session.createTopic(name);
        MessageConsumer some = session.createConsumer(topic, "kind = 'tea'");
        MessageConsumer all = session.createConsumer(topic);
        for (String kind : new String[] {"tea", "coffee"}) {
            TextMessage message = session.createTextMessage(kind);
            message.setStringProperty("kind", kind);
            session.createProducer(topic).send(message);
        }
        same("tea", next(all));
        same("coffee", next(all));
        same("tea", next(some));
        same(Arrays.asList(), rest(some));
    }

    // Topics

    public void topics() throws Exception {
        Session session = session();
        Topic topic = session.createTopic(name);
        send(session, topic, "before");
        MessageConsumer one = session().createConsumer(topic);
        MessageConsumer two = session().createConsumer(topic);
        send(session, topic, "a", "b");
        for (MessageConsumer each : new MessageConsumer[] {one, two}) {
            same("a", next(each));
            same("b", next(each));
        }
    }

    public void noLocal() throws Exception {
        Session session = session();
        Topic topic = session.createTopic(name);
        MessageConsumer consumer = session.createConsumer(topic, null, true);
        send(session, topic, "own");
        send(session(), topic, "other's");
        same("other's", next(consumer));
        same(Arrays.asList(), rest(consumer));
    }

    public void durableSubscriptions() throws Exception {
        Connection connection = connect(name);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic(name);
        session.createDurableConsumer(topic, "all").close();
        connection.close();
        send(session(), topic, "while away");
        Session again = connect(name).createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = again.createDurableConsumer(topic, "all");
        same("while away", next(consumer));
        fails(JMSException.class, () -> again.unsubscribe("all")); // in use
        consumer.close();
        again.unsubscribe("all");
        send(again, topic, "gone");
        same(Arrays.asList(), rest(again.createDurableConsumer(topic, "all")));
        fails(InvalidDestinationException.class, () -> again.unsubscribe("unknown"));
    }

    public void durableSubscriptionsThatChange() throws Exception {
        Session session = connect(name).createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic(name);
        session.createDurableConsumer(topic, "some", "number = 1", false).close();
        TextMessage message = session.createTextMessage("one");
        message.setIntProperty("number", 1);
        session.createProducer(topic).send(message);
        MessageConsumer changed = session.createDurableConsumer(topic, "some", "number = 2", false);
        message = session.createTextMessage("two");
        message.setIntProperty("number", 2);
        session.createProducer(topic).send(message);
        same("two", next(changed));
        same(Arrays.asList(), rest(changed));
        changed.close();
        session.unsubscribe("some");
    }

    private static Set<String> both(MessageConsumer one, MessageConsumer two, int count) throws JMSException {
        Set<String> found = new TreeSet<>();
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (found.size() < count && System.currentTimeMillis() < end) {
            for (MessageConsumer each : new MessageConsumer[] {one, two}) {
                String text = text(each.receive(20));
                if (text != null && !found.add(text)) {
                    throw new AssertionError(text + " came twice");
                }
            }
        }
        found.addAll(rest(one));
        found.addAll(rest(two));
        return found;
    }

    private static final Set<String> FOUR = new TreeSet<>(Arrays.asList("a", "b", "c", "d"));

    public void sharedSubscriptions() throws Exception {
        Topic topic = session().createTopic(name);
        for (String clientId : new String[] {null, name}) {
            Connection connection = connect(clientId);
            MessageConsumer one = connection.createSession(false, Session.AUTO_ACKNOWLEDGE).createSharedConsumer(topic, "shared");
            Session session = clientId == null ? session() : connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer two = session.createSharedConsumer(topic, "shared");
            MessageConsumer alone = session().createConsumer(topic);
            send(session, topic, "a", "b", "c", "d");
            same(FOUR, both(one, two, 4));
            for (String each : FOUR) {
                same(each, next(alone));
            }
            one.close();
            two.close();
            MessageConsumer later = session.createSharedConsumer(topic, "shared"); // a new one: the old went with its last consumer
            same(Arrays.asList(), rest(later));
        }
    }

    public void sharedDurableSubscriptions() throws Exception {
        Topic topic = session().createTopic(name);
        for (String clientId : new String[] {null, name}) {
            Connection connection = connect(clientId);
            Session first = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            String subscription = name + "-shared"; // those without a client id share one set of names
            first.createSharedDurableConsumer(topic, subscription).close();
            connection.close();
            send(session(), topic, "a", "b", "c", "d");
            Connection again = connect(clientId);
            Session one = again.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Session two = clientId == null ? session() : again.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer left = one.createSharedDurableConsumer(topic, subscription);
            MessageConsumer right = two.createSharedDurableConsumer(topic, subscription);
            same(FOUR, both(left, right, 4));
            send(two, topic, "a", "b", "c", "d");
            same(FOUR, both(left, right, 4));
            left.close();
            right.close();
            one.unsubscribe(subscription);
            send(one, topic, "gone");
            MessageConsumer later = one.createSharedDurableConsumer(topic, subscription);
            same(Arrays.asList(), rest(later));
            later.close();
            one.unsubscribe(subscription);
        }
    }

    public void selectorsOfSharedSubscriptions() throws Exception {
        Session session = session();
        Topic topic = session.createTopic(name);
        MessageConsumer one = session.createSharedConsumer(topic, "some", "kind = 'tea'");
        MessageConsumer two = session().createSharedConsumer(topic, "some", "kind = 'tea'");
        for (String kind : new String[] {"tea", "coffee"}) {
            TextMessage message = session.createTextMessage(kind);
            message.setStringProperty("kind", kind);
            session.createProducer(topic).send(message);
        }
        same(Collections.singleton("tea"), both(one, two, 1));
        fails(JMSException.class, () -> session().createSharedConsumer(topic, "some", "kind = 'coffee'")); // it has consumers
    }

    // Delays, expiry, groups

    public void delayedDelivery() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        producer.setDeliveryDelay(700);
        TextMessage late = session.createTextMessage("late");
        producer.send(late);
        producer.setDeliveryDelay(0);
        producer.send(session.createTextMessage("at once"));
        same("at once", next(consumer));
        Message found = consumer.receive(PATIENCE_MS);
        same("late", text(found));
        same(true, System.currentTimeMillis() >= late.getJMSDeliveryTime());
        same(late.getJMSDeliveryTime(), found.getJMSDeliveryTime());
    }

    public void delayedDeliveryToTopicsInTransactions() throws Exception {
        Session session = connect().createSession(true, Session.SESSION_TRANSACTED);
        Topic topic = session.createTopic(name);
        MessageConsumer consumer = session().createConsumer(topic);
        MessageProducer producer = session.createProducer(topic);
        producer.setDeliveryDelay(500);
        TextMessage late = session.createTextMessage("late");
        producer.send(late);
        session.commit();
        same("late", next(consumer));
        same(true, System.currentTimeMillis() >= late.getJMSDeliveryTime());
    }

    public void expiry() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        TextMessage brief = session.createTextMessage("brief");
        producer.send(brief, DeliveryMode.PERSISTENT, 9, 50);
        producer.send(session.createTextMessage("lasting"), DeliveryMode.PERSISTENT, 4, 3_600_000);
        while (System.currentTimeMillis() <= brief.getJMSExpiration()) {
            TimeUnit.MILLISECONDS.sleep(1);
        }
        MessageConsumer consumer = session.createConsumer(queue);
        same("lasting", next(consumer));
        same(Arrays.asList(), rest(consumer));
    }

    public void groups() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        MessageConsumer[] consumers = {session().createConsumer(queue), session().createConsumer(queue)};
        MessageProducer producer = session.createProducer(queue);
        int groups = 6;
        int each = 5;
        for (int number = 0; number < groups * each; number++) {
            TextMessage message = session.createTextMessage("" + number);
            message.setStringProperty("JMSXGroupID", "group-" + number % groups);
            producer.send(message);
        }
        Map<String, Integer> owners = new HashMap<>();
        Map<String, Integer> last = new HashMap<>();
        int found = 0;
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (found < groups * each && System.currentTimeMillis() < end) {
            for (int owner = 0; owner < consumers.length; owner++) {
                Message message = consumers[owner].receive(20);
                if (message != null) {
                    String group = message.getStringProperty("JMSXGroupID");
                    same(owners.getOrDefault(group, owner), owner);
                    owners.put(group, owner);
                    int number = Integer.parseInt(text(message));
                    same(true, last.getOrDefault(group, -1) < number);
                    last.put(group, number);
                    found++;
                }
            }
        }
        same(groups * each, found);
    }

    // Destinations

    public void browsers() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        for (int number = 0; number < 3; number++) {
            TextMessage message = session.createTextMessage("" + number);
            message.setIntProperty("number", number);
            producer.send(message);
        }
        same(Arrays.asList("0", "1", "2"), browsed(session.createBrowser(queue)));
        same(Arrays.asList("1", "2"), browsed(session.createBrowser(queue, "number > 0")));
        MessageConsumer consumer = session.createConsumer(queue);
        for (int number = 0; number < 3; number++) {
            Message message = consumer.receive(PATIENCE_MS);
            same("" + number, text(message));
            same(1, message.getIntProperty("JMSXDeliveryCount"));
        }
        same(Arrays.asList(), browsed(session.createBrowser(queue)));
    }

    private static List<String> browsed(QueueBrowser browser) throws JMSException {
        List<String> texts = new ArrayList<>();
        for (Object each : Collections.list(browser.getEnumeration())) {
            texts.add(text((Message) each));
        }
        browser.close();
        return texts;
    }

    public void requestsAndReplies() throws Exception {
        Queue queue = session().createQueue(name);
        Session server = session();
        MessageProducer answers = server.createProducer(null);
        server.createConsumer(queue).setMessageListener(message -> {
            try {
                TextMessage answer = server.createTextMessage("re: " + text(message));
                answer.setJMSCorrelationID(message.getJMSMessageID());
                answers.send(message.getJMSReplyTo(), answer);
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
        Session client = session();
        TemporaryQueue mine = client.createTemporaryQueue();
        MessageConsumer consumer = client.createConsumer(mine);
        for (int number = 0; number < 10; number++) {
            TextMessage request = client.createTextMessage("" + number);
            request.setJMSReplyTo(mine);
            client.createProducer(queue).send(request);
            Message answer = consumer.receive(PATIENCE_MS);
            same("re: " + number, text(answer));
            same(request.getJMSMessageID(), answer.getJMSCorrelationID());
        }
    }

    public void temporaryDestinations() throws Exception {
        Connection connection = connect();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        TemporaryQueue queue = session.createTemporaryQueue();
        TemporaryTopic topic = session.createTemporaryTopic();
        same(false, queue.getQueueName().equals(session.createTemporaryQueue().getQueueName()));
        MessageConsumer fromQueue = session.createConsumer(queue);
        MessageConsumer fromTopic = session.createConsumer(topic);
        MessageConsumer fromTopicToo = session.createConsumer(topic);
        Session other = session();
        send(other, queue, "queue");
        send(other, topic, "topic");
        same("queue", next(fromQueue));
        same("topic", next(fromTopic));
        same("topic", next(fromTopicToo));
        fails(JMSException.class, () -> other.createConsumer(queue));
        fails(JMSException.class, queue::delete); // it has a consumer
        fromQueue.close();
        queue.delete();
        fails(JMSException.class, () -> send(other, queue, "late"));
        connection.close();
        fails(JMSException.class, () -> send(other, topic, "late"));
    }

    public void producersOfNoDestination() throws Exception {
        Session session = session();
        MessageProducer producer = session.createProducer(null);
        Queue one = session.createQueue(name + "-one");
        Queue two = session.createQueue(name + "-two");
        producer.send(one, session.createTextMessage("one"));
        producer.send(two, session.createTextMessage("two"));
        same("two", next(session.createConsumer(two)));
        same("one", next(session.createConsumer(one)));
    }

    public void sendsWithListeners() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        CountDownLatch completed = new CountDownLatch(100);
        List<Exception> errors = Collections.synchronizedList(new ArrayList<>());
        for (int number = 0; number < 100; number++) {
            producer.send(session.createTextMessage("" + number), new CompletionListener() {
                public void onCompletion(Message message) {
                    completed.countDown();
                }

                public void onException(Message message, Exception error) {
                    errors.add(error);
                }
            });
        }
        same(true, completed.await(PATIENCE_MS, TimeUnit.MILLISECONDS));
        same(Arrays.asList(), errors);
        MessageConsumer consumer = session.createConsumer(queue);
        for (int number = 0; number < 100; number++) {
            same("" + number, next(consumer));
        }
    }

    public void clientIdsInUse() throws Exception {
        connect(name);
        fails(InvalidClientIDException.class, () -> connect(name));
        Connection other = connect();
        other.close();
        connect(name + "-other");
    }

    public void stoppedConnections() throws Exception {
        Connection connection = connect();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        MessageConsumer consumer = session.createConsumer(queue);
        connection.stop();
        send(session, queue, "a");
        same(null, consumer.receive(QUIET_MS));
        connection.start();
        same("a", next(consumer));
    }

    public void contexts() throws Exception {
        try (JMSContext context = factory().createContext()) {
            Queue queue = context.createQueue(name);
            context.createProducer().setProperty("cups", 2).setPriority(7).setJMSType("order").send(queue, Collections.singletonMap("tea", 2));
            Message message = context.createConsumer(queue, "cups = 2").receive(PATIENCE_MS);
            same(2, message.getBody(Map.class).get("tea"));
            same(7, message.getJMSPriority());
            same("order", message.getJMSType());
        }
    }

    public void sendsThatNeedNoOutcome() throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(url + "?jms.presettlePolicy.presettleAll=true");
        factory.setUsername("guest");
        factory.setPassword("guest");
        Connection connection = factory.createConnection();
        opened.add(connection);
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        send(session, queue, "a", "b");
        MessageConsumer consumer = session.createConsumer(queue);
        same("a", next(consumer));
        same("b", next(consumer));
    }

    public void undeliverableHere() throws Exception {
        Message next = settled(UNDELIVERABLE);
        if (text(next).equals("a")) { // brokers without a dead letter queue for it give it to another link
            same(2, next.getIntProperty("JMSXDeliveryCount"));
        }
    }
}
