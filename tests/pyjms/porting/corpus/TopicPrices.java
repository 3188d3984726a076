import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Prices by publish and subscribe, with selectors, listeners and statistics. */
public class TopicPrices {
    /** What is known of one share. */
    private static class Statistics {
        private int count;
        private double sum, highest = Double.parseDouble("-1e9");
        private float last;

        private void add(double price) {
            count++;
            sum += price;
            if (price > highest) highest = price;
            last = (float) price;
        }

        private double average() {
            return count == 0 ? 0 : sum / count;
        }

        @Override
        public String toString() {
            return count + " prices, average " + average() + ", highest " + highest + ", last " + last;
        }
    }

    private final Map<String, Statistics> statistics = new LinkedHashMap<String, Statistics>();
    private final List<String> alarms = new ArrayList<>();
    private CountDownLatch latch;

    private void listen(TopicSession session, Topic topic) throws JMSException {
        TopicSubscriber all = session.createSubscriber(topic);
        all.setMessageListener(new MessageListener() {
            @Override
            public void onMessage(Message message) {
                try {
                    MapMessage map = (MapMessage) message;
                    String share = map.getString("share");
                    Statistics known = statistics.get(share);
                    if (known == null) {
                        known = new Statistics();
                        statistics.put(share, known);
                    }
                    known.add(map.getDouble("price"));
                } catch (JMSException e) {
                    alarms.add("failed " + e);
                } finally {
                    latch.countDown();
                }
            }
        });
        TopicSubscriber high = session.createSubscriber(topic, "price > 100 AND share LIKE 'A%'", false);
        high.setMessageListener(message -> {
            try {
                alarms.add(message.getStringProperty("share") + " at " + message.getDoubleProperty("price"));
            } catch (JMSException e) {
                alarms.add("failed");
            }
            latch.countDown();
        });
    }

    private void publish(TopicConnection connection, Topic topic) throws JMSException {
        TopicSession session = connection.createTopicSession(true, 0);
        TopicPublisher publisher = session.createPublisher(topic);
        publisher.setTimeToLive(60 * 1000);
        publisher.setPriority(6);
        double price = 99.5;
        String[] shares = {"ABC", "XYZ"};
        for (int i = 0; i < 6; i++) {
            price += i % 2 == 0 ? 0.75 : -0.5;
            MapMessage message = session.createMapMessage();
            String share = shares[i % 2];
            message.setString("share", share);
            message.setDouble("price", price);
            message.setStringProperty("share", share);
            message.setDoubleProperty("price", price);
            publisher.publish(message);
        }
        session.commit();
        System.out.println(publisher.getPriority() + " " + publisher.getTimeToLive() + " " + publisher.getTopic().getTopicName());
        session.close();
    }

    public static void main(String[] args) throws Exception {
        TopicConnectionFactory factory = new ActiveMQConnectionFactory("vm://prices?broker.persistent=false");
        TopicConnection connection = factory.createTopicConnection();
        TopicSession session = connection.createTopicSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic("prices");
        TopicPrices prices = new TopicPrices();
        prices.latch = new CountDownLatch(9);
        prices.listen(session, topic);
        connection.start();
        prices.publish(connection, topic);
        prices.latch.await();
        connection.stop();
        for (Map.Entry<String, Statistics> entry : prices.statistics.entrySet()) {
            System.out.println(entry.getKey() + ": " + entry.getValue());
        }
        System.out.println(prices.alarms);
        connection.close();
    }
}
