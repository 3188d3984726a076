"""A transacted session: a batch of messages is consumed and produced as a whole, or not at all."""

from pyjms import ConnectionFactory, JMSException, Session


class OutOfStockException(Exception):
    pass


class Warehouse:
    """Takes orders three at a time and writes a shipment for each, in one transaction."""

    BATCH = 3

    def __init__(self, connection, stock):
        self.session = connection.createSession(True, Session.SESSION_TRANSACTED)
        self.orders = self.session.createConsumer(self.session.createQueue("orders"))
        self.shipments = self.session.createProducer(self.session.createQueue("shipments"))
        self.stock = stock

    def processBatch(self):
        try:
            for _ in range(self.BATCH):
                order = self.orders.receive(5000)
                self.processOrder(order)
            self.session.commit()
            print("Batch committed")
            return True
        except OutOfStockException as e:
            print("Batch rolled back: " + str(e))
            self.session.rollback()
            return False

    def processOrder(self, order):
        again = " again" if order.getJMSRedelivered() else ""
        deliveries = order.getIntProperty("JMSXDeliveryCount")
        print("Order " + order.getText() + again + ", delivery " + str(deliveries))
        shipment = self.session.createTextMessage("shipment of " + order.getText())
        self.shipments.send(shipment)
        if order.getText() not in self.stock:
            raise OutOfStockException("no " + order.getText())


def main(url):
    connection = ConnectionFactory(url).createConnection()
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    producer = session.createProducer(session.createQueue("orders"))
    for article in ["desk", "lamp", "chair"]:
        producer.send(session.createTextMessage(article))
    connection.start()

    stock = {"desk", "lamp"}
    warehouse = Warehouse(connection, stock)
    try:
        while not warehouse.processBatch():
            shipped = session.createConsumer(session.createQueue("shipments"))
            print("Shipments so far: " + str(shipped.receiveNoWait()))
            shipped.close()
            stock.add("chair")
        consumer = session.createConsumer(session.createQueue("shipments"))
        for _ in range(Warehouse.BATCH):
            print("Received: " + consumer.receive(5000).getText())
    except JMSException as e:
        print("JMSException: " + e.getMessage())
    finally:
        connection.close()


if __name__ == "__main__":
    main("vm://warehouse")
