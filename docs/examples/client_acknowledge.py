"""CLIENT_ACKNOWLEDGE: the program says when its work is done, and can ask for the messages once more."""

from pyjms import ConnectionFactory, Session


def main(url):
    connection = ConnectionFactory(url).createConnection()
    session = connection.createSession(False, Session.CLIENT_ACKNOWLEDGE)
    queue = session.createQueue("jobs")
    producer = session.createProducer(queue)
    for i in range(1, 4):
        producer.send(session.createTextMessage("job " + str(i)))
    connection.start()

    consumer = session.createConsumer(queue)
    consumer.receive(5000).acknowledge()
    print("Acknowledged: job 1")
    for _ in range(2):
        message = consumer.receive(5000)
        print(message.getText() + ", redelivered: " + str(message.getJMSRedelivered()))

    print("Recover")
    session.recover()
    for _ in range(2):
        message = consumer.receive(5000)
        print(message.getText() + ", redelivered: " + str(message.getJMSRedelivered()))
    message.acknowledge()  # acknowledges everything that the session has delivered
    connection.close()

    connection = ConnectionFactory(url).createConnection()
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    connection.start()
    print("Left: " + str(session.createConsumer(queue).receive(200)))
    connection.close()


if __name__ == "__main__":
    main("vm://jobs")
