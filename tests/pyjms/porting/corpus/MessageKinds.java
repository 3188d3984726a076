import java.util.Enumeration;
import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** The five kinds of message, and their properties. */
public class MessageKinds {
    private final Session session;
    private final Queue queue;
    private final MessageProducer producer;
    private final MessageConsumer consumer;

    MessageKinds(Connection connection) throws JMSException {
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        queue = session.createQueue("kinds");
        producer = session.createProducer(queue);
        consumer = session.createConsumer(queue);
    }

    private Message through(Message message) throws JMSException {
        producer.send(message, DeliveryMode.NON_PERSISTENT, 7, 60000);
        Message received = consumer.receive(5000);
        System.out.println("priority " + received.getJMSPriority() + ", expires " + (received.getJMSExpiration() > 0)
                + ", mode " + received.getJMSDeliveryMode() + ", redelivered " + received.getJMSRedelivered());
        return received;
    }

    void texts() throws JMSException {
        TextMessage message = session.createTextMessage();
        System.out.println("text: " + message.getText());
        message.setText("espresso \u00e9");
        message.setJMSType("order");
        message.setStringProperty("colour", null);
        message.setBooleanProperty("hot", true);
        message.setByteProperty("b", (byte) -5);
        message.setShortProperty("s", (short) 300);
        message.setLongProperty("l", 1L << 40);
        message.setFloatProperty("f", 0.1f);
        message.setDoubleProperty("d", 1);
        message.setObjectProperty("o", 12L);
        TextMessage received = (TextMessage) through(message);
        System.out.println(received.getText() + " " + received.getJMSType() + " " + received.getStringProperty("colour"));
        System.out.println(received.getBooleanProperty("hot") + " " + received.getByteProperty("b") + " "
                + received.getShortProperty("s") + " " + received.getLongProperty("l") + " "
                + received.getFloatProperty("f") + " " + received.getDoubleProperty("d"));
        System.out.println(received.getStringProperty("f") + " " + received.getStringProperty("d") + " " + received.getStringProperty("hot"));
        Object o = received.getObjectProperty("o");
        System.out.println(o + " " + (o instanceof Long) + " " + (o instanceof Integer) + " " + received.propertyExists("x"));
        Object f = received.getObjectProperty("f");
        System.out.println(f + " " + (f instanceof Float));
        try {
            received.getIntProperty("colour");
            System.out.println("not reached");
        } catch (NumberFormatException e) {
            System.out.println("no number");
        } catch (JMSException e) {
            System.out.println("no int");
        }
        try {
            received.setText("again");
        } catch (MessageNotWriteableException e) {
            System.out.println("read-only");
        }
        received.clearBody();
        received.setText("cleared");
        System.out.println(received.getText());
        int count = 0;
        Enumeration names = received.getPropertyNames();
        while (names.hasMoreElements()) {
            String name = (String) names.nextElement();
            if (!name.startsWith("JMS")) {
                count++;
            }
        }
        System.out.println(count + " properties");
    }

    void maps() throws JMSException {
        MapMessage message = session.createMapMessage();
        message.setString("name", "espresso");
        message.setInt("count", 2);
        message.setChar("size", 'L');
        message.setBytes("bytes", new byte[] {1, 2, -3});
        message.setObject("object", Integer.valueOf(17));
        message.setFloat("price", 2.5f);
        message.setBoolean("hot", true);
        MapMessage received = (MapMessage) through(message);
        System.out.println(received.getString("name") + received.getInt("count") + received.getChar("size"));
        System.out.println(received.getFloat("price") + " " + received.getString("price") + " " + received.getString("count"));
        byte[] bytes = received.getBytes("bytes");
        System.out.println(bytes.length + " " + bytes[2] + " " + received.getObject("object") + " " + received.getString("none"));
        System.out.println(received.itemExists("hot") + " " + received.itemExists("cold"));
        long total = received.getLong("count") * 3;
        System.out.println(total);
    }

    void bytes() throws JMSException {
        BytesMessage message = session.createBytesMessage();
        message.writeInt(42);
        message.writeUTF("text");
        message.writeByte((byte) 200);
        message.writeBoolean(false);
        message.writeDouble(2);
        message.writeChar('x');
        message.writeBytes(new byte[] {9, 8, 7});
        BytesMessage received = (BytesMessage) through(message);
        System.out.println(received.getBodyLength());
        System.out.println(received.readInt() + received.readUTF() + received.readByte() + received.readBoolean()
                + received.readDouble() + received.readChar());
        byte[] buffer = new byte[10];
        int read = received.readBytes(buffer);
        System.out.println(read + " " + buffer[0] + buffer[2] + buffer[3]);
        try {
            received.readByte();
        } catch (MessageEOFException e) {
            System.out.println("the end");
        }
    }

    void streams() throws JMSException {
        StreamMessage message = session.createStreamMessage();
        message.writeString("one");
        message.writeInt(2);
        message.writeObject(3.5);
        message.writeLong(4);
        StreamMessage received = (StreamMessage) through(message);
        System.out.println(received.readString() + received.readLong() + received.readObject() + received.readString());
        received.reset();
        try {
            received.readInt();
        } catch (NumberFormatException | MessageFormatException e) {
            System.out.println("no int");
        }
    }

    void objects() throws JMSException {
        ObjectMessage message = session.createObjectMessage("a text");
        ObjectMessage received = (ObjectMessage) through(message);
        String text = (String) received.getObject();
        System.out.println(text);
        Message other = through(session.createMessage());
        try {
            TextMessage wrong = (TextMessage) other;
            System.out.println(wrong.getText());
        } catch (ClassCastException e) {
            System.out.println("no TextMessage");
        }
    }

    public static void main(String[] args) throws JMSException {
        Connection connection = new ActiveMQConnectionFactory("vm://kinds?broker.persistent=false").createConnection();
        connection.start();
        try {
            MessageKinds kinds = new MessageKinds(connection);
            kinds.texts();
            kinds.maps();
            kinds.bytes();
            kinds.streams();
            kinds.objects();
        } finally {
            connection.close();
        }
    }
}
