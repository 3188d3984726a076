import java.util.HashMap;
import java.util.Map;
import javax.jms.*;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** A server that adds numbers, and a client, each with a context. */
public class ContextRequestReply {
    static class Server implements MessageListener {
        private final JMSContext context;

        Server(JMSContext context) {
            this.context = context;
        }

        @Override
        public void onMessage(Message request) {
            try {
                Map<String, Object> numbers = request.getBody(Map.class);
                int sum = (Integer) numbers.get("a") + (Integer) numbers.get("b");
                context.createProducer()
                    .setJMSCorrelationID(request.getJMSCorrelationID())
                    .setProperty("sum", (long) sum)
                    .send(request.getJMSReplyTo(), "the sum is " + sum);
            } catch (JMSException e) {
                throw new JMSRuntimeException(e.getMessage(), e.getErrorCode(), e);
            }
        }
    }

    public static void main(String[] args) throws JMSException {
        ConnectionFactory factory = new ActiveMQConnectionFactory("vm://0?broker.persistent=false");
        try (JMSContext serving = factory.createContext(); JMSContext asking = factory.createContext(JMSContext.CLIENT_ACKNOWLEDGE)) {
            Queue requests = serving.createQueue("sums");
            serving.createConsumer(requests).setMessageListener(new Server(serving));
            TemporaryQueue replies = asking.createTemporaryQueue();
            JMSConsumer consumer = asking.createConsumer(replies);
            JMSProducer producer = asking.createProducer().setJMSReplyTo(replies).setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            for (int i = 1; i <= 3; i++) {
                Map<String, Object> body = new HashMap<>();
                body.put("a", i);
                body.put("b", i * 10);
                producer.setJMSCorrelationID("request " + i).send(requests, body);
                Message reply = consumer.receive(5000);
                System.out.println(reply.getJMSCorrelationID() + ": " + reply.getBody(String.class));
                System.out.println(reply.getObjectProperty("sum") instanceof Long);
                System.out.println(reply.isBodyAssignableTo(String.class) + " " + reply.isBodyAssignableTo(byte[].class));
                asking.acknowledge();
            }
            System.out.println(producer.getDeliveryMode() == DeliveryMode.NON_PERSISTENT);
            System.out.println(asking.getSessionMode() + " " + asking.getTransacted());
        }
    }
}
