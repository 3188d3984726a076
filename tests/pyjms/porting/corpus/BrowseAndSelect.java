import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Browses a queue, and takes what selectors choose. */
public class BrowseAndSelect {
    static final String[] COLOURS = {"red", "green", "blue"};

    public static void main(String... args) throws JMSException {
        QueueConnectionFactory factory = new ActiveMQConnectionFactory("vm://select?broker.persistent=false");
        QueueConnection connection = factory.createQueueConnection();
        QueueSession session = connection.createQueueSession(false, QueueSession.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue("balls");
        QueueSender sender = session.createSender(queue);
        for (int i = 0; i < 7; i++) {
            TextMessage message = session.createTextMessage();
            message.setText("ball " + i);
            message.setStringProperty("colour", COLOURS[i % COLOURS.length]);
            message.setIntProperty("size", i);
            sender.send(message);
        }
        connection.start();
        QueueBrowser browser = session.createBrowser(queue, "size > 3");
        Enumeration<?> enumeration = browser.getEnumeration();
        int seen = 0;
        while (enumeration.hasMoreElements()) {
            Message next = (Message) enumeration.nextElement();
            System.out.println("seen " + next.getIntProperty("size"));
            seen++;
        }
        System.out.println(seen + " seen with " + browser.getMessageSelector() + " in " + browser.getQueue().getQueueName());

        browser.close();
        Map<String, List<String>> byColour = new HashMap<String, List<String>>();
        for (int c = 0; c < COLOURS.length; c++) {
            String colour = COLOURS[c];
            QueueReceiver receiver = session.createReceiver(queue, "colour = '" + colour + "'");
            Message message;
            while ((message = receiver.receive(300)) != null) {
                List<String> list = byColour.get(colour);
                if (list == null) {
                    list = new ArrayList<String>();
                    byColour.put(colour, list);
                }
                list.add(((TextMessage) message).getText());
            }
            receiver.close();
        }
        for (String colour : COLOURS) {
            System.out.println(colour + ": " + byColour.get(colour) + " " + byColour.get(colour).size());
        }
        try {
            session.createReceiver(queue, "colour = = 'red'");
        } catch (InvalidSelectorException e) {
            System.out.println("wrong selector");
        }
        connection.close();
    }
}
