import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

public class RequestReply {
    static class Server implements MessageListener {
        private Session session;
        private MessageProducer replies;
        private long served;

        Server(Session session, Queue requests) throws JMSException {
            this.session = session;
            this.replies = session.createProducer(null);
            session.createConsumer(requests).setMessageListener(this);
        }

        public void onMessage(Message request) {
            try {
                MapMessage map = (MapMessage) request;
                int a = map.getInt("a");
                int b = map.getInt("b");
                String operator = map.getString("operator");
                TextMessage reply = session.createTextMessage();
                reply.setJMSCorrelationID(request.getJMSCorrelationID());
                reply.setText(calculate(a, b, operator));
                replies.send(request.getJMSReplyTo(), reply);
                served++;
            } catch (JMSException e) {
                throw new RuntimeException(e);
            }
        }

        private String calculate(int a, int b, String operator) {
            switch (operator) {
                case "+":
                    return String.valueOf(a + b);
                case "*":
                    return "" + a * b;
                case "/":
                    if (b == 0) {
                        return "no division by zero";
                    }
                    return a / b + " rest " + a % b;
                default:
                    return "unknown: " + operator;
            }
        }

        long getServed() {
            return served;
        }
    }

    private Connection connection;

    private void run() throws JMSException {
        connection = new ActiveMQConnectionFactory("vm://requests?broker.persistent=false").createConnection();
        try {
            connection.start();
            Session serving = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue requests = serving.createQueue("requests");
            Server server = new Server(serving, requests);

            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            ask(session, requests, 17, 5, "+");
            ask(session, requests, -17, 5, "/");
            ask(session, requests, 17, -5, "/");
            ask(session, requests, 1, 0, "/");
            ask(session, requests, 2147483647, 2, "*");
            ask(session, requests, 2147483647, 1, "+");
            ask(session, requests, 1, 2, "^");
            System.out.println("served " + server.getServed());
        } finally {
            connection.close();
        }
    }

    private void ask(Session session, Queue requests, int a, int b, String operator) throws JMSException {
        TemporaryQueue replyTo = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(replyTo);
        MapMessage request = session.createMapMessage();
        request.setInt("a", a);
        request.setInt("b", b);
        request.setString("operator", operator);
        request.setJMSReplyTo(replyTo);
        request.setJMSCorrelationID("id-" + a + operator + b);
        session.createProducer(requests).send(request);
        TextMessage reply = (TextMessage) consumer.receive(5000);
        System.out.printf("%s: %d %s %d = %s%n", reply.getJMSCorrelationID(), a, operator, b, reply.getText());
        consumer.close();
        replyTo.delete();
    }

    public static void main(String[] args) throws JMSException {
        new RequestReply().run();
    }
}
