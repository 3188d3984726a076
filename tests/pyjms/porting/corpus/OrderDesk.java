import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** A small application with classes of its own: commands, handlers, a registry, retries. */
public class OrderDesk {
    interface Handler {
        String handle(MapMessage order) throws JMSException, Rejected;

        default String describe() {
            return "handler of " + name();
        }

        String name();
    }

    static class Rejected extends Exception {
        private final boolean retry;

        Rejected(String reason, boolean retry) {
            super(reason);
            this.retry = retry;
        }

        boolean mayBeRetried() {
            return retry;
        }
    }

    abstract static class AbstractHandler implements Handler {
        private final String name;
        protected int handled;

        AbstractHandler(String name) {
            this.name = name;
        }

        public String name() {
            return name;
        }

        public final String handle(MapMessage order) throws JMSException, Rejected {
            check(order);
            handled++;
            return name + "#" + handled + ": " + work(order);
        }

        protected void check(MapMessage order) throws JMSException, Rejected {
            if (!order.itemExists("id")) {
                throw new Rejected("no id", false);
            }
        }

        protected abstract String work(MapMessage order) throws JMSException;
    }

    static class Coffee extends AbstractHandler {
        Coffee() {
            super("coffee");
        }

        protected String work(MapMessage order) throws JMSException {
            int cups = order.getInt("cups");
            double price = cups * 2.4;
            return String.format("%d cups for %.2f", cups, price);
        }
    }

    static class Cake extends AbstractHandler {
        private int failures = 1;

        Cake() {
            super("cake");
        }

        @Override
        protected void check(MapMessage order) throws JMSException, Rejected {
            super.check(order);
            if (failures > 0) {
                failures -= 1;
                throw new Rejected("oven is cold", true);
            }
        }

        protected String work(MapMessage order) throws JMSException {
            return order.getString("kind").toUpperCase() + " cake";
        }
    }

    private final Map<String, Handler> handlers = new HashMap<>();
    private final LinkedList<String> log = new LinkedList<>();
    private final Set<Integer> seen = new HashSet<>();
    private final Properties settings = new Properties();

    OrderDesk() {
        register(new Coffee());
        register(new Cake());
        settings.setProperty("retries", "2");
    }

    private void register(Handler handler) {
        handlers.put(handler.name(), handler);
    }

    private boolean dispatch(MapMessage order) throws JMSException {
        Handler handler = handlers.get(order.getJMSType());
        if (handler == null) {
            log.addFirst("unknown " + order.getJMSType());
            return false;
        }
        int retries = Integer.parseInt(settings.getProperty("retries", "0"));
        for (int attempt = 0; attempt <= retries; attempt++) {
            try {
                if (order.itemExists("id") && !seen.add(order.getInt("id"))) {
                    if (attempt == 0) {
                        log.add("duplicate " + order.getInt("id"));
                        return false;
                    }
                }
                log.add(handler.handle(order));
                return true;
            } catch (Rejected e) {
                log.add(handler.describe() + " rejects: " + e.getMessage());
                if (!e.mayBeRetried()) {
                    break;
                }
            }
        }
        return false;
    }

    private static MapMessage order(Session session, String type, Object... pairs) throws JMSException {
        MapMessage message = session.createMapMessage();
        message.setJMSType(type);
        for (int i = 0; i + 1 < pairs.length; i += 2) {
            message.setObject((String) pairs[i], pairs[i + 1]);
        }
        return message;
    }

    public static void main(String[] args) throws JMSException {
        Connection connection = new ActiveMQConnectionFactory("vm://desk?broker.persistent=false").createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
        Queue queue = session.createQueue("desk");
        MessageProducer producer = session.createProducer(queue);
        producer.send(order(session, "coffee", "id", 1, "cups", 3));
        producer.send(order(session, "cake", "id", 2, "kind", "carrot"));
        producer.send(order(session, "coffee", "id", 1, "cups", 3));
        producer.send(order(session, "tea"));
        producer.send(order(session, "coffee", "cups", 1));
        OrderDesk desk = new OrderDesk();
        MessageConsumer consumer = session.createConsumer(queue);
        int good = 0, all = 0;
        for (Message message = consumer.receive(500); message != null; message = consumer.receive(500)) {
            all++;
            if (desk.dispatch((MapMessage) message)) {
                good++;
            }
        }
        System.out.println(good + " of " + all);
        for (String line : desk.log) {
            System.out.println(line);
        }
        System.out.println(desk.log.getFirst() + ", " + desk.seen.size() + ", " + desk.seen.contains(2) + ", " + desk.log.peek());
        List<String> sorted = new ArrayList<String>(desk.log);
        Collections.sort(sorted);
        System.out.println(sorted.get(0) + " ... " + sorted.get(sorted.size() - 1));
        connection.close();
    }
}
