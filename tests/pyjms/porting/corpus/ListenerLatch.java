import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

public class ListenerLatch implements MessageListener {
    private final CountDownLatch latch;
    private final List<String> texts = new ArrayList<String>();
    private int count;
    private static int all = 0;

    public ListenerLatch(int expected) {
        this.latch = new CountDownLatch(expected);
    }

    @Override
    public void onMessage(Message message) {
        try {
            String text = ((TextMessage) message).getText();
            texts.add(text);
            if (++count % 2 == 0) {
                System.out.println("even: " + text + " (" + count + ")");
            } else {
                System.out.println("odd: " + text + " (" + count + ")");
            }
            all += text.length();
        } catch (JMSException e) {
            e.printStackTrace();
        } finally {
            latch.countDown();
        }
    }

    public static void main(String[] args) throws Exception {
        final ConnectionFactory factory = new ActiveMQConnectionFactory("vm://latch?broker.persistent=false");
        final Connection connection = factory.createConnection();
        connection.setExceptionListener(new ExceptionListener() {
            @Override
            public void onException(JMSException e) {
                System.err.println("lost: " + e.getMessage());
            }
        });
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic("news");
        ListenerLatch listener = new ListenerLatch(4);
        session.createConsumer(topic).setMessageListener(listener);
        connection.start();

        Session sending = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = sending.createProducer(topic);
        String[] news = {"rain", "sun", "snow", "storm"};
        for (String each : news) {
            producer.send(sending.createTextMessage(each));
        }
        boolean done = listener.latch.await(10, TimeUnit.SECONDS);
        System.out.println("done: " + done + ", " + listener.texts + ", " + all);
        connection.close();
    }
}
