"""Point-to-point: a sender puts orders into a queue, a receiver takes them out one by one."""

from pyjms import ConnectionFactory, DeliveryMode, JMSException, Session, TextMessage


class OrderSender:
    def __init__(self, factory, queueName):
        self.factory = factory
        self.queueName = queueName

    def sendOrders(self, orders):
        connection = None
        try:
            connection = self.factory.createConnection()
            session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
            queue = session.createQueue(self.queueName)
            producer = session.createProducer(queue)
            producer.setDeliveryMode(DeliveryMode.PERSISTENT)
            for order in orders:
                message = session.createTextMessage()
                message.setText(order)
                producer.send(message)
                print("Sent: " + message.getText())
            # A message without a body says that there is no more.
            producer.send(session.createMessage())
        except JMSException as e:
            print("Sending failed: " + e.getMessage())
        finally:
            if connection is not None:
                connection.close()


class OrderReceiver:
    def __init__(self, factory, queueName):
        self.factory = factory
        self.queueName = queueName

    def receiveOrders(self):
        connection = self.factory.createConnection()
        try:
            session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
            consumer = session.createConsumer(session.createQueue(self.queueName))
            connection.start()
            while True:
                message = consumer.receive(5000)
                if not isinstance(message, TextMessage):
                    break
                print("Received: " + message.getText())
            print("No more orders")
        finally:
            connection.close()


def main(url):
    factory = ConnectionFactory(url)
    OrderSender(factory, "orders").sendOrders(["3 espressos", "1 cappuccino", "2 teas"])
    OrderReceiver(factory, "orders").receiveOrders()


if __name__ == "__main__":
    main("vm://cafe")
