import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.*;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** Asynchronous sends, delivery delays, and transactions of contexts. */
public class LaterAndTogether {
    static class Counting implements CompletionListener {
        final CountDownLatch latch;
        final AtomicInteger failed = new AtomicInteger();

        Counting(int expected) {
            latch = new CountDownLatch(expected);
        }

        @Override
        public void onCompletion(Message message) {
            latch.countDown();
        }

        @Override
        public void onException(Message message, Exception exception) {
            failed.incrementAndGet();
            latch.countDown();
        }
    }

    private static void asynchronously(ConnectionFactory factory) throws InterruptedException, JMSException {
        try (JMSContext context = factory.createContext()) {
            Queue queue = context.createQueue("later");
            Counting counting = new Counting(3);
            JMSProducer producer = context.createProducer().setAsync(counting);
            producer.send(queue, "one").send(queue, new byte[] {2, -2}).send(queue, new ArrayList<String>(Arrays.asList("three")));
            System.out.println(counting.latch.await(10, TimeUnit.SECONDS) + " " + counting.failed.get());
            System.out.println(producer.getAsync() == counting);
            JMSConsumer consumer = context.createConsumer(queue);
            System.out.println(consumer.receiveBody(String.class, 5000));
            byte[] bytes = consumer.receiveBody(byte[].class, 5000);
            System.out.println(bytes.length + " " + bytes[1]);
            Serializable list = consumer.receiveBody(Serializable.class, 5000);
            System.out.println(list);
        }
        final CountDownLatch sent = new CountDownLatch(1);
        try (Connection connection = factory.createConnection(); Session session = connection.createSession()) {
            MessageProducer producer = session.createProducer(session.createQueue("classic"));
            producer.setDeliveryDelay(50);
            producer.send(session.createTextMessage("classic"), new CompletionListener() {
                public void onCompletion(Message message) {
                    sent.countDown();
                }

                public void onException(Message message, Exception exception) {
                    System.out.println("failed");
                }
            });
            System.out.println(sent.await(10, TimeUnit.SECONDS));
            connection.start();
            Message message = session.createConsumer(session.createQueue("classic")).receive(5000);
            System.out.println(message.getBody(String.class) + " " + (message.getJMSDeliveryTime() - message.getJMSTimestamp() >= 50));
            System.out.println(message.getIntProperty("JMSXDeliveryCount"));
        }
    }

    private static void together(ConnectionFactory factory) {
        try (JMSContext context = factory.createContext(JMSContext.SESSION_TRANSACTED)) {
            Queue queue = context.createQueue("together");
            JMSProducer producer = context.createProducer().setPriority(7);
            producer.send(queue, "lost");
            context.rollback();
            producer.send(queue, "kept").send(queue, "also kept");
            context.commit();
            JMSConsumer consumer = context.createConsumer(queue);
            System.out.println(consumer.receiveBody(String.class, 5000));
            context.rollback();
            System.out.println(consumer.receiveBody(String.class, 5000));
            System.out.println(consumer.receiveBody(String.class, 5000));
            context.commit();
            System.out.println(consumer.receiveNoWait() == null);
            try {
                producer.setPriority(10);
            } catch (JMSRuntimeException e) {
                System.out.println("no priority: " + producer.getPriority());
            }
            try {
                producer.setProperty("", 1);
            } catch (IllegalArgumentException e) {
                System.out.println("no name");
            }
        }
    }

    public static void main(String[] args) throws Exception {
        ConnectionFactory factory = new ActiveMQConnectionFactory("vm://0?broker.persistent=false");
        asynchronously(factory);
        together(factory);
    }
}
