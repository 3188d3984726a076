import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Rolls a batch back, and commits it the second time. */
public class TransactedBatch {
    private static final int SIZE = 3;
    private int attempts = 0;

    private boolean process(Session session, MessageConsumer consumer, MessageProducer out) throws JMSException {
        attempts++;
        int sum = 0;
        for (int i = 1; i <= SIZE; ++i) {
            TextMessage message = (TextMessage) consumer.receive(2000);
            if (message == null) {
                System.out.println("nothing came");
                session.rollback();
                return false;
            }
            int value = Integer.parseInt(message.getText());
            sum += value;
            System.out.println("attempt " + attempts + ": " + value + (message.getJMSRedelivered() ? " again" : ""));
            if (attempts == 1 && i == SIZE - 1) {
                session.rollback();
                return false;
            }
        }
        out.send(session.createTextMessage("sum " + sum));
        session.commit();
        return true;
    }

    public static void main(String[] args) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory("vm://batch?broker.persistent=false");
        Connection connection = factory.createConnection();
        connection.start();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        System.out.println(session.getTransacted());
        Queue in = session.createQueue("in");
        Queue out = session.createQueue("out");
        MessageProducer producer = session.createProducer(null);
        for (int i = 0; i < SIZE; i++) {
            producer.send(in, session.createTextMessage(Integer.toString(i * i)));
        }
        session.commit();
        TransactedBatch batch = new TransactedBatch();
        MessageConsumer consumer = session.createConsumer(in);
        MessageProducer sums = session.createProducer(out);
        boolean done = false;
        while (!done) {
            done = batch.process(session, consumer, sums);
        }
        MessageConsumer results = session.createConsumer(out);
        Message result = results.receive(2000);
        if (result instanceof TextMessage && ((TextMessage) result).getText() != null) {
            System.out.println(((TextMessage) result).getText() + " after " + batch.attempts);
        }
        session.commit();
        session.close();
        connection.close();
        try {
            session.commit();
        } catch (javax.jms.IllegalStateException e) {
            System.out.println("closed");
        }
    }
}
