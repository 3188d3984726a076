import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSProducer;
import jakarta.jms.JMSRuntimeException;
import jakarta.jms.IllegalStateRuntimeException;
import jakarta.jms.InvalidDestinationRuntimeException;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** Workers that share a subscription, and a durable one that waits for them. */
public class SharedWorkers {
    private static final int JOBS = 6;

    private final List<String> done = Collections.synchronizedList(new ArrayList<String>());
    private final CountDownLatch latch = new CountDownLatch(JOBS);

    private void run(ConnectionFactory factory) throws InterruptedException {
        try (JMSContext one = factory.createContext(); JMSContext two = one.createContext(Session.AUTO_ACKNOWLEDGE)) {
            Topic jobs = one.createTopic("jobs");
            for (JMSContext each : new JMSContext[] {one, two}) {
                JMSConsumer worker = each.createSharedConsumer(jobs, "workers");
                worker.setMessageListener(message -> {
                    try {
                        done.add(message.getBody(String.class));
                    } catch (jakarta.jms.JMSException e) {
                        done.add("failed: " + e.getMessage());
                    }
                    latch.countDown();
                });
            }
            try (JMSContext sending = factory.createContext()) {
                JMSProducer producer = sending.createProducer();
                for (int i = 0; i < JOBS; i++) {
                    producer.setProperty("even", i % 2 == 0).send(jobs, "job " + i);
                }
                System.out.println(producer.getPropertyNames().size() + " " + producer.getBooleanProperty("even"));
            }
            System.out.println(latch.await(10, TimeUnit.SECONDS));
            Collections.sort(done);
            System.out.println(done);
        }
    }

    private static void late(ConnectionFactory factory) {
        try (JMSContext context = factory.createContext()) {
            Topic news = context.createTopic("late");
            context.createSharedDurableConsumer(news, "archive", "kept = TRUE").close();
            context.createProducer().setProperty("kept", true).send(news, "kept");
            context.createProducer().setProperty("kept", false).send(news, "dropped");
            JMSConsumer archive = context.createSharedDurableConsumer(news, "archive", "kept = TRUE");
            System.out.println(archive.receiveBody(String.class, 5000));
            System.out.println(archive.receiveBodyNoWait(String.class));
            archive.close();
            context.unsubscribe("archive");
            try {
                context.unsubscribe("archive");
            } catch (InvalidDestinationRuntimeException e) {
                System.out.println("no such subscription");
            }
        }
    }

    public static void main(String[] args) throws InterruptedException {
        ConnectionFactory factory = new ActiveMQConnectionFactory("vm://0?broker.persistent=false");
        new SharedWorkers().run(factory);
        late(factory);
        JMSContext closed = factory.createContext();
        closed.close();
        try {
            closed.createProducer();
            System.out.println("not closed");
        } catch (IllegalStateRuntimeException e) {
            System.out.println("closed");
        } catch (JMSRuntimeException e) {
            System.out.println("another");
        }
    }
}
