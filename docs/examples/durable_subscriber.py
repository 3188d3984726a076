"""Publish/subscribe: a durable subscriber goes away and, when it comes back, gets what it has missed."""

from pyjms import ConnectionFactory, Session


class NewsPublisher:
    def __init__(self, factory):
        self.connection = factory.createConnection()
        self.session = self.connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        self.producer = self.session.createProducer(self.session.createTopic("news"))

    def publish(self, headline):
        self.producer.send(self.session.createTextMessage(headline))

    def close(self):
        self.connection.close()


class NewsReader:
    """The client identifier and the name of the subscription say together which subscription it is."""

    def __init__(self, factory, name, durable):
        self.factory = factory
        self.name = name
        self.durable = durable

    def open(self):
        self.connection = self.factory.createConnection()
        self.connection.setClientID(self.name)
        self.session = self.connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        topic = self.session.createTopic("news")
        if self.durable:
            self.subscriber = self.session.createDurableSubscriber(topic, "headlines")
        else:
            self.subscriber = self.session.createConsumer(topic)
        self.connection.start()

    def read(self):
        message = self.subscriber.receive(200)
        while message is not None:
            print(self.name + ": " + message.getText())
            message = self.subscriber.receive(200)

    def close(self):
        self.connection.close()

    def unsubscribe(self):
        self.subscriber.close()
        self.session.unsubscribe("headlines")


def main(url):
    factory = ConnectionFactory(url)
    publisher = NewsPublisher(factory)
    alice = NewsReader(factory, "alice", True)
    bob = NewsReader(factory, "bob", False)

    alice.open()
    bob.open()
    publisher.publish("Bridge opened")
    alice.read()
    bob.read()

    print("Both go home")
    alice.close()
    bob.close()
    publisher.publish("Storm expected")
    publisher.publish("Storm over")

    print("Both come back")
    alice.open()
    bob.open()
    publisher.publish("Sunny weekend")
    alice.read()
    bob.read()

    alice.unsubscribe()
    alice.close()
    bob.close()
    publisher.close()


if __name__ == "__main__":
    main("vm://news")
