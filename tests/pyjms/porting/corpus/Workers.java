import java.util.Collections;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Several threads, each with a session of its own. */
public class Workers {
    private static final int WORKERS = 3;
    private static final int JOBS = 30;

    private final Connection connection;
    private final AtomicInteger done = new AtomicInteger();
    private final AtomicLong total = new AtomicLong(0);
    private final Object lock = new Object();
    private int guarded;
    private boolean finished;

    Workers(Connection connection) {
        this.connection = connection;
    }

    class Worker extends Thread {
        private final int id;
        private int handled;

        Worker(int id) {
            super("worker-" + id);
            this.id = id;
        }

        @Override
        public void run() {
            try {
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageConsumer consumer = session.createConsumer(session.createQueue("jobs"));
                while (true) {
                    Message message = consumer.receive(1000);
                    if (message == null) {
                        break;
                    }
                    work(message);
                    handled++;
                }
                session.close();
            } catch (JMSException e) {
                System.out.println("worker " + id + " failed");
            }
        }

        private void work(Message message) throws JMSException {
            int value = message.getIntProperty("value");
            total.addAndGet(value);
            done.incrementAndGet();
            synchronized (lock) {
                guarded += value;
            }
        }
    }

    private synchronized void finish() {
        finished = true;
        notifyAll();
    }

    private synchronized void awaitFinish() throws InterruptedException {
        while (!finished) {
            wait();
        }
    }

    void run() throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("jobs"));
        for (int i = 1; i <= JOBS; i++) {
            Message message = session.createMessage();
            message.setIntProperty("value", i);
            producer.send(message);
        }
        List<Worker> workers = new ArrayList<Worker>();
        for (int i = 0; i < WORKERS; i++) {
            Worker worker = new Worker(i);
            workers.add(worker);
            worker.start();
        }
        int handled = 0;
        for (Worker worker : workers) {
            worker.join();
            handled += worker.handled;
        }
        System.out.println(handled + " handled, " + done.get() + " done, total " + total + ", guarded " + guarded);
        System.out.println(workers.get(0).getName() + " " + workers.get(0).isAlive());

        ExecutorService pool = Executors.newFixedThreadPool(2);
        final CountDownLatch latch = new CountDownLatch(4);
        final List<Integer> squares = Collections.synchronizedList(new ArrayList<Integer>());
        for (int i = 0; i < 4; i++) {
            final int n = i;
            pool.execute(() -> {
                squares.add(n * n);
                latch.countDown();
            });
        }
        System.out.println(latch.await(5, TimeUnit.SECONDS) + " " + latch.getCount());
        pool.submit(new Runnable() {
            public void run() {
                finish();
            }
        });
        awaitFinish();
        pool.shutdown();
        System.out.println(pool.awaitTermination(5, TimeUnit.SECONDS) + " " + pool.isShutdown());
        Collections.sort(squares);
        System.out.println(squares);
        Thread thread = new Thread(this::hello, "hello");
        thread.start();
        thread.join(5000);
        Thread.sleep(1);
    }

    private void hello() {
        System.out.println("hello from a thread");
    }

    public static void main(String[] args) throws Exception {
        Connection connection = new ActiveMQConnectionFactory("vm://workers?broker.persistent=false").createConnection();
        connection.start();
        new Workers(connection).run();
        connection.close();
    }
}
