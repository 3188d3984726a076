"""A program that only listens: its main thread waits, as no thread of pyjms keeps a program alive. Ctrl-C and SIGTERM end it."""

import signal
import sys
import threading

from pyjms import ConnectionFactory, MessageListener, Session


class OrderListener(MessageListener):
    def onMessage(self, message):
        print("Order: " + message.getText(), flush=True)


def main(url):
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # raises KeyboardInterrupt in the main thread, as Ctrl-C does
    connection = ConnectionFactory(url).createConnection()
    try:
        session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        session.createConsumer(session.createQueue("orders")).setMessageListener(OrderListener())
        connection.start()
        print("Waiting for orders", flush=True)
        threading.Event().wait()  # in Java the provider's threads would do this
    except KeyboardInterrupt:
        print("No more orders")
    finally:
        connection.close()  # after the order that the listener has in hand


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "vm://orders")
