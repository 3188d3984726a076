"""An ExceptionListener is told when the connection is lost while nobody is calling it."""

import threading

from pyjms import ConnectionFactory, ExceptionListener, JMSException, Session


class ReconnectingReceiver(ExceptionListener):
    def __init__(self, factory):
        self.factory = factory
        self.lost = threading.Event()

    def connect(self):
        self.connection = self.factory.createConnection()
        self.connection.setExceptionListener(self)
        session = self.connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        self.consumer = session.createConsumer(session.createQueue("alarms"))
        self.connection.start()
        print("Connected")

    def onException(self, exception):
        print("Connection lost")
        self.lost.set()

    def receive(self):
        message = self.consumer.receive(2000)
        print("Alarm: " + message.getText())


def send(factory, text):
    connection = factory.createConnection()
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    session.createProducer(session.createQueue("alarms")).send(session.createTextMessage(text))
    connection.close()


def main(url, interrupt):
    """`interrupt` breaks the connections to `url`, as a pulled cable would."""
    factory = ConnectionFactory(url)
    receiver = ReconnectingReceiver(factory)
    receiver.connect()
    send(factory, "smoke in the cellar")
    receiver.receive()

    interrupt()
    receiver.lost.wait(10)
    try:
        receiver.consumer.receiveNoWait()
    except JMSException:
        print("The old connection is of no use")
    receiver.connection.close()

    send(factory, "water in the cellar")
    receiver.connect()
    receiver.receive()
    receiver.connection.close()


if __name__ == "__main__":
    from pyjms.testing import Faults

    with Faults("vm://alarms") as faults:
        main(faults.url, faults.drop_connections)
