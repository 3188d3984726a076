import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Acknowledges by hand, and takes messages again after recover. */
public class ClientAcknowledge {
    private static int failures = 2;

    private static void handle(TextMessage message) throws JMSException {
        String text = message.getText();
        if (text.endsWith("3") && failures-- > 0) {
            throw new JMSException("cannot handle " + text, "E-" + failures);
        }
        System.out.println("handled " + text + (message.getJMSRedelivered() ? ", the second time" : ""));
        message.acknowledge();
    }

    public static void main(String[] args) {
        Connection connection = null;
        try {
            connection = new ActiveMQConnectionFactory("vm://acks?broker.persistent=false").createConnection();
            connection.start();
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            System.out.println("mode " + session.getAcknowledgeMode());
            Destination destination = session.createQueue("acks");
            MessageProducer producer = session.createProducer(destination);
            for (int i = 1; i < 6; i++) {
                producer.send(session.createTextMessage("m" + i));
            }
            MessageConsumer consumer = session.createConsumer(destination);
            TextMessage message;
            do {
                message = (TextMessage) consumer.receive(2500);
                if (message != null) {
                    try {
                        handle(message);
                    } catch (JMSException e) {
                        System.out.println("failed: " + e.getMessage() + " " + e.getErrorCode());
                        session.recover();
                    }
                }
            } while (message != null);
        } catch (JMSException e) {
            e.printStackTrace();
        } finally {
            try {
                if (connection != null) connection.close();
            } catch (JMSException ignored) {
                // nothing to be done
            }
        }
    }
}
