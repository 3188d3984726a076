import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Questions with QueueRequestor, answered by a thread. */
public class AskTheServer extends Thread {
    private final QueueConnection connection;
    private volatile boolean stopped = false;
    private int answered;

    public AskTheServer(QueueConnection connection) {
        super("server");
        this.connection = connection;
        setDaemon(true);
    }

    public void run() {
        QueueSession session = null;
        try {
            session = connection.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
            QueueReceiver receiver = session.createReceiver(session.createQueue("questions"));
            QueueSender sender = session.createSender(null);
            while (!stopped) {
                Message question = receiver.receive(200);
                if (question == null) continue;
                String text = ((TextMessage) question).getText();
                TextMessage answer = session.createTextMessage(reverse(text));
                answer.setIntProperty("length", text.length());
                answer.setJMSCorrelationID(question.getJMSMessageID());
                sender.send((Queue) question.getJMSReplyTo(), answer);
                answered++;
            }
        } catch (JMSException e) {
            System.out.println("server: " + e.getMessage());
        } finally {
            close(session);
        }
    }

    private static void close(Session session) {
        if (session != null) {
            try {
                session.close();
            } catch (JMSException e) {
                throw new RuntimeException("not closed", e);
            }
        }
    }

    private static String reverse(String text) {
        char[] letters = text.toCharArray();
        for (int i = 0, j = letters.length - 1; i < j; i++, j--) {
            char letter = letters[i];
            letters[i] = letters[j];
            letters[j] = letter;
        }
        return new String(letters);
    }

    public static void main(String[] args) throws Exception {
        QueueConnectionFactory factory = new ActiveMQConnectionFactory("vm://asking?broker.persistent=false");
        QueueConnection connection = factory.createQueueConnection();
        connection.start();
        AskTheServer server = new AskTheServer(connection);
        server.start();
        QueueSession session = connection.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
        QueueRequestor requestor = new QueueRequestor(session, session.createQueue("questions"));
        for (String question : "never odd or even, stressed".split(", ")) {
            TextMessage request = session.createTextMessage(question);
            TextMessage reply = (TextMessage) requestor.request(request);
            System.out.println(reply.getText() + " " + reply.getIntProperty("length") + " "
                    + request.getJMSMessageID().equals(reply.getJMSCorrelationID()));
        }
        requestor.close();
        server.stopped = true;
        server.join();
        System.out.println(server.answered + " " + server.isAlive() + " " + server.getName());
        connection.close();
    }
}
