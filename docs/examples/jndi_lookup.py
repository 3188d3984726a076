"""JNDI: the program knows names only; jndi.properties says what they stand for."""

import os
from pathlib import Path

from pyjms import InitialContext, NamingException, Session


def main(url):
    os.environ["BROKER_URL"] = url
    jndiContext = InitialContext(Path(__file__).parent / "jndi.properties")
    try:
        connectionFactory = jndiContext.lookup("jms/OrderFactory")
        queue = jndiContext.lookup("jms/OrderQueue")
        topic = jndiContext.lookup("jms/PriceTopic")
    except NamingException as e:
        print("JNDI API lookup failed: " + str(e))
        return
    print("Queue: " + queue.getQueueName())
    print("Topic: " + topic.getTopicName())

    connection = connectionFactory.createConnection()
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    session.createProducer(queue).send(session.createTextMessage("one lamp"))
    connection.start()
    print("Received: " + session.createConsumer(queue).receive(5000).getText())
    connection.close()

    try:
        jndiContext.lookup("jms/NoSuchQueue")
    except NamingException:
        print("jms/NoSuchQueue: not bound")


if __name__ == "__main__":
    main("vm://orders")
