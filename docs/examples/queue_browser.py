"""A QueueBrowser looks at the messages of a queue and leaves them there."""

from pyjms import ConnectionFactory, Session


def main(url):
    connection = ConnectionFactory(url).createConnection()
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.createQueue("tickets")
    producer = session.createProducer(queue)
    for number, severity in [(1, 2), (2, 5), (3, 1)]:
        ticket = session.createTextMessage("Ticket " + str(number))
        ticket.setIntProperty("severity", severity)
        producer.send(ticket)
    connection.start()

    browser = session.createBrowser(queue)
    messages = browser.getEnumeration()
    if not messages.hasMoreElements():
        print("No tickets in the queue")
    while messages.hasMoreElements():
        message = messages.nextElement()
        print("Browsed: " + message.getText() + ", severity " + message.getStringProperty("severity"))
    browser.close()

    severe = session.createBrowser(queue, "severity >= 2")
    count = 0
    messages = severe.getEnumeration()
    while messages.hasMoreElements():
        messages.nextElement()
        count += 1
    print("Severe: " + str(count))
    severe.close()

    consumer = session.createConsumer(queue)
    message = consumer.receiveNoWait()
    while message is not None:
        print("Received: " + message.getText())
        message = consumer.receiveNoWait()
    connection.close()


if __name__ == "__main__":
    main("vm://helpdesk")
