"""The interfaces of the two domains, as programs written for JMS 1.0.2 use them."""

from pyjms import (
    ConnectionFactory,
    IllegalStateException,
    QueueConnectionFactory,
    Session,
    TopicConnectionFactory,
)


def pointToPoint(url):
    queueConnection = QueueConnectionFactory(url).createQueueConnection()
    queueSession = queueConnection.createQueueSession(False, Session.AUTO_ACKNOWLEDGE)
    queue = queueSession.createQueue("orders")
    queueSender = queueSession.createSender(queue)
    queueSender.send(queueSession.createTextMessage("one lamp"))
    queueReceiver = queueSession.createReceiver(queue)
    queueConnection.start()
    message = queueReceiver.receive(5000)
    print(queueReceiver.getQueue().getQueueName() + ": " + message.getText())
    try:
        queueSession.createTopic("prices")
    except IllegalStateException:
        print("A QueueSession has no topics")
    queueConnection.close()


def publishSubscribe(url):
    topicConnection = TopicConnectionFactory(url).createTopicConnection()
    topicSession = topicConnection.createTopicSession(False, Session.AUTO_ACKNOWLEDGE)
    topic = topicSession.createTopic("prices")
    everything = topicSession.createSubscriber(topic)
    othersOnly = topicSession.createSubscriber(topic, None, True)
    topicPublisher = topicSession.createPublisher(topic)
    topicPublisher.publish(topicSession.createTextMessage("lamp: 25"))
    topicConnection.start()
    print(everything.getTopic().getTopicName() + ": " + everything.receive(5000).getText())
    print("noLocal: " + str(othersOnly.receive(200)))
    topicConnection.close()


def both(url):
    """With the common interfaces one session serves both domains, even in one transaction."""
    connection = ConnectionFactory(url).createConnection()
    session = connection.createSession(True, Session.SESSION_TRANSACTED)
    subscriber = session.createConsumer(session.createTopic("prices"))
    session.createProducer(session.createQueue("orders")).send(session.createTextMessage("one chair"))
    session.createProducer(session.createTopic("prices")).send(session.createTextMessage("chair: 40"))
    session.commit()
    connection.start()
    receiver = session.createConsumer(session.createQueue("orders"))
    print(receiver.receive(5000).getText() + ", " + subscriber.receive(5000).getText())
    session.commit()
    connection.close()


def main(url):
    pointToPoint(url)
    publishSubscribe(url)
    both(url)


if __name__ == "__main__":
    main("vm://shop")
