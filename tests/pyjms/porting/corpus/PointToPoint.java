import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;

import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Sends orders to a queue, and takes them from there.
 */
public class PointToPoint {

    private static final String URL = "vm://point?broker.persistent=false";
    private static final int COUNT = 3;

    public static void main(String[] args) throws JMSException {
        ConnectionFactory factory = new ActiveMQConnectionFactory(URL);
        Connection connection = null;
        try {
            connection = factory.createConnection();
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("orders");

            // send them
            MessageProducer producer = session.createProducer(queue);
            producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            for (int i = 0; i < COUNT; i++) {
                TextMessage message = session.createTextMessage("order " + i);
                message.setIntProperty("table", i * 10);
                message.setDoubleProperty("price", i + 0.5);
                producer.send(message);
                System.out.println("sent: " + message.getText());
            }
            producer.send(session.createMessage());

            MessageConsumer consumer = session.createConsumer(queue);
            int received = 0;
            Message message;
            while ((message = consumer.receive(1000)) != null) {
                if (message instanceof TextMessage) {
                    TextMessage text = (TextMessage) message;
                    System.out.println("received: " + text.getText() + ", table " + text.getIntProperty("table")
                            + ", price " + text.getDoubleProperty("price"));
                    received++;
                } else {
                    System.out.println("the end, after " + received);
                    break;
                }
            }
            System.out.println(consumer.receiveNoWait() == null ? "empty" : "not empty");
        } finally {
            if (connection != null) {
                connection.close();
            }
        }
    }
}
