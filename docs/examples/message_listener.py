"""Asynchronous delivery: the provider calls a MessageListener with each message."""

import threading

from pyjms import ConnectionFactory, JMSException, MessageListener, Session, TextMessage


class QuoteListener(MessageListener):
    def __init__(self, expected):
        self.done = threading.Semaphore(0)  # java.util.concurrent.CountDownLatch
        self.expected = expected

    def onMessage(self, message):
        try:
            if isinstance(message, TextMessage):
                print(message.getStringProperty("symbol") + " " + message.getText())
            else:
                print("Unexpected message: " + message.getJMSMessageID())
        except JMSException as e:
            print("JMSException in onMessage(): " + str(e))
        finally:
            self.done.release()

    def awaitAll(self):
        for _ in range(self.expected):
            self.done.acquire(timeout=10)


def main(url):
    connection = ConnectionFactory(url).createConnection()
    try:
        receiving = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        consumer = receiving.createConsumer(receiving.createQueue("quotes"))
        listener = QuoteListener(3)
        consumer.setMessageListener(listener)
        connection.start()

        # A session belongs to one thread, and that of the receiving session is its listener's: sending has its own.
        sending = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        producer = sending.createProducer(sending.createQueue("quotes"))
        for symbol, price in [("ACME", "12.50"), ("INIT", "7.25"), ("ACME", "12.75")]:
            message = sending.createTextMessage(price)
            message.setStringProperty("symbol", symbol)
            producer.send(message)

        listener.awaitAll()
        print("All quotes have arrived")
    finally:
        connection.close()


if __name__ == "__main__":
    main("vm://quotes")
