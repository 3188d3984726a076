import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/** {@code Types URL send QUEUE} sends a message of each type, with properties of all types; {@code Types URL check QUEUE} receives the same. */
public class Types {
    public static void main(String[] arguments) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        factory.setUsername("guest");
        factory.setPassword("guest");
        try (Connection connection = factory.createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(arguments[2]);
            if (arguments[1].equals("send")) {
                MessageProducer producer = session.createProducer(queue);
                for (Message each : Checks.allTypes(session)) {
                    if (!(each instanceof ObjectMessage)) { // its object is one of Java
                        producer.send(each);
                    }
                }
            } else {
                Checks.checkAllTypes(session.createConsumer(queue), false);
            }
        }
        System.out.println("all done");
        System.exit(0);
    }
}
