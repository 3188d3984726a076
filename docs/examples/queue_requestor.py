"""Request and reply with QueueRequestor, which does the same with one call."""

from pyjms import QueueConnectionFactory, QueueRequestor, Session


def startServer(connection):
    session = connection.createQueueSession(False, Session.AUTO_ACKNOWLEDGE)
    sender = session.createSender(None)

    # Where Java 8 and later take a lambda, Python takes any callable.
    def onMessage(request):
        reply = session.createTextMessage(request.getText().upper())
        reply.setJMSCorrelationID(request.getJMSMessageID())
        sender.send(request.getJMSReplyTo(), reply)

    session.createReceiver(session.createQueue("upper.case")).setMessageListener(onMessage)
    connection.start()


def main(url):
    factory = QueueConnectionFactory(url)
    serverConnection = factory.createQueueConnection()
    startServer(serverConnection)

    connection = factory.createQueueConnection()
    connection.start()
    session = connection.createQueueSession(False, Session.AUTO_ACKNOWLEDGE)
    requestor = QueueRequestor(session, session.createQueue("upper.case"))
    for word in ["hello", "world"]:
        reply = requestor.request(session.createTextMessage(word))
        print(word + " -> " + reply.getText())
    requestor.close()  # closes the session, too

    connection.close()
    serverConnection.close()


if __name__ == "__main__":
    main("vm://requestor")
