import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.TopicSubscriber;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * A subscriber that misses nothing while it is away.
 */
public class DurableNews {
    private static final String CLIENT = "reader-1";
    private static final String SUBSCRIPTION = "all the news";

    private final ConnectionFactory factory;

    public DurableNews(ConnectionFactory factory) {
        this.factory = factory;
    }

    /** Reads what has come. */
    public int read(boolean last) throws JMSException {
        Connection connection = factory.createConnection();
        connection.setClientID(CLIENT);
        int read = 0;
        try {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Topic topic = session.createTopic("news");
            TopicSubscriber subscriber = session.createDurableSubscriber(topic, SUBSCRIPTION);
            connection.start();
            for (;;) {
                Message message = subscriber.receive(500);
                if (message == null) {
                    break;
                }
                read++;
                System.out.println("read: " + ((TextMessage) message).getText());
                message.acknowledge();
            }
            subscriber.close();
            if (last) {
                session.unsubscribe(SUBSCRIPTION);
            }
        } finally {
            connection.close();
        }
        return read;
    }

    public void publish(String... texts) throws JMSException {
        Connection connection = factory.createConnection();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createTopic("news"));
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        connection.close();
        System.out.println("published " + texts.length);
    }

    public static void main(String[] args) throws JMSException {
        Connection keeper = null;
        ConnectionFactory factory = new ActiveMQConnectionFactory("vm://durable?broker.persistent=false");
        keeper = factory.createConnection();
        keeper.start();
        DurableNews news = new DurableNews(factory);
        System.out.println(news.read(false));
        news.publish("one", "two");
        System.out.println(news.read(false));
        news.publish();
        news.publish("three");
        System.out.println(news.read(true));
        news.publish("four");
        System.out.println(news.read(true));
        keeper.close();
    }
}
