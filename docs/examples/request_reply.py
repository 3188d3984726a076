"""Request and reply: JMSReplyTo says where the answer goes, JMSCorrelationID which question it answers."""

from pyjms import ConnectionFactory, MessageListener, Session


class QuotationServer(MessageListener):
    PRICES = {"ball-point pen, blue": 1, "fountain pen": 25}

    def __init__(self, connection):
        self.session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        consumer = self.session.createConsumer(self.session.createQueue("quotation.requests"))
        self.replyProducer = self.session.createProducer(None)
        consumer.setMessageListener(self)

    def onMessage(self, request):
        price = self.PRICES.get(request.getString("item"))
        reply = self.session.createMapMessage()
        reply.setJMSCorrelationID(request.getJMSMessageID())
        if price is None:
            reply.setBoolean("known", False)
        else:
            reply.setBoolean("known", True)
            reply.setLong("price", price * request.getInt("quantity"))
        self.replyProducer.send(request.getJMSReplyTo(), reply)


class QuotationClient:
    def __init__(self, connection):
        self.session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        self.producer = self.session.createProducer(self.session.createQueue("quotation.requests"))
        self.replyQueue = self.session.createTemporaryQueue()
        self.replies = self.session.createConsumer(self.replyQueue)

    def ask(self, item, quantity):
        request = self.session.createMapMessage()
        request.setString("item", item)
        request.setInt("quantity", quantity)
        request.setJMSReplyTo(self.replyQueue)
        self.producer.send(request)
        return request.getJMSMessageID()

    def nextReply(self):
        return self.replies.receive(10000)


def main(url):
    factory = ConnectionFactory(url)
    serverConnection = factory.createConnection()
    QuotationServer(serverConnection)
    serverConnection.start()

    clientConnection = factory.createConnection()
    client = QuotationClient(clientConnection)
    clientConnection.start()

    # Two questions are on their way before the first answer is read.
    questions = {}
    for item, quantity in [("ball-point pen, blue", 1200), ("quill", 3)]:
        questions[client.ask(item, quantity)] = item
    for _ in range(len(questions)):
        reply = client.nextReply()
        item = questions[reply.getJMSCorrelationID()]
        if reply.getBoolean("known"):
            print(item + ": " + reply.getString("price") + " $")
        else:
            print(item + ": no quotation")

    clientConnection.close()
    serverConnection.close()


if __name__ == "__main__":
    main("vm://quotation")
