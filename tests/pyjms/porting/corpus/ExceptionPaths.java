import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** What JMS refuses, and how programs notice. */
public class ExceptionPaths implements ExceptionListener {
    private static String kind(Exception e) {
        if (e instanceof javax.jms.IllegalStateException) {
            return "IllegalStateException";
        } else if (e instanceof InvalidDestinationException) {
            return "InvalidDestinationException";
        } else if (e instanceof MessageFormatException) {
            return "MessageFormatException";
        } else if (e instanceof JMSException) {
            return "JMSException";
        } else if (e instanceof RuntimeException) {
            return "RuntimeException";
        }
        return "Exception";
    }

    @Override
    public void onException(JMSException e) {
        System.out.println("told: " + e.getMessage());
    }

    private interface Action {
        void run(Session session) throws Exception;
    }

    private static void attempt(String what, Session session, Action action) {
        try {
            action.run(session);
            System.out.println(what + ": passed");
        } catch (JMSException e) {
            System.out.println(what + ": " + kind(e));
        } catch (Exception e) {
            System.out.println(what + ": other " + kind(e));
        }
    }

    public static void main(String[] args) throws JMSException {
        Connection connection = new ActiveMQConnectionFactory("vm://errors?broker.persistent=false").createConnection();
        ExceptionPaths listener = new ExceptionPaths();
        connection.setExceptionListener(listener);
        System.out.println(connection.getExceptionListener() == listener);
        connection.start();
        final Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        attempt("commit", session, new Action() {
            public void run(Session s) throws Exception {
                s.commit();
            }
        });
        attempt("null consumer", session, new Action() {
            public void run(Session s) throws Exception {
                s.createConsumer(null);
            }
        });
        attempt("wrong conversion", session, new Action() {
            public void run(Session s) throws Exception {
                Message message = s.createMessage();
                message.setBooleanProperty("b", true);
                message.getLongProperty("b");
            }
        });
        attempt("no number", session, new Action() {
            public void run(Session s) throws Exception {
                Message message = s.createMessage();
                message.setStringProperty("s", "x");
                message.getLongProperty("s");
            }
        });
        attempt("own", session, new Action() {
            public void run(Session s) throws Exception {
                JMSException e = new JMSException("own", "CODE");
                e.setLinkedException(new IllegalArgumentException("inner"));
                System.out.println(e.getErrorCode() + " " + e.getLinkedException().getMessage());
                throw e;
            }
        });
        attempt("checked", session, new Action() {
            public void run(Session s) throws Exception {
                throw new Exception("checked");
            }
        });
        listener.onException(new JMSException("by hand"));
        session.close();
        attempt("closed", session, new Action() {
            public void run(Session s) throws Exception {
                s.createTextMessage("x");
            }
        });
        connection.close();
        Object nothing = null;
        try {
            nothing.toString();
        } catch (NullPointerException e) {
            System.out.println("null");
        }
        try {
            throw new UnsupportedOperationException("not yet");
        } catch (RuntimeException e) {
            System.out.println(e + "; " + e.getMessage() + "; " + kind(e));
        }
    }
}
