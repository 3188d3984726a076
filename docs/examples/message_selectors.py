"""Message selectors: a consumer gets only the messages whose headers and properties match."""

from pyjms import ConnectionFactory, InvalidSelectorException, Session


def send(session, producer, city, degrees, wind):
    report = session.createTextMessage(city)
    report.setJMSType("WeatherReport")
    report.setStringProperty("city", city)
    report.setDoubleProperty("degrees", degrees)
    if wind is not None:
        report.setIntProperty("wind", wind)
    producer.send(report)


def receiveAll(session, queue, selector):
    consumer = session.createConsumer(queue, selector)
    cities = []
    message = consumer.receive(200)
    while message is not None:
        cities.append(message.getText())
        message = consumer.receive(200)
    consumer.close()
    print(selector + ": " + str(cities))


def main(url):
    connection = ConnectionFactory(url).createConnection()
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.createQueue("weather")
    producer = session.createProducer(queue)
    send(session, producer, "Oslo", -3.5, 12)
    send(session, producer, "Rome", 14.0, None)
    send(session, producer, "Omaha", 2.0, 40)
    send(session, producer, "Cairo", 21.5, 8)
    send(session, producer, "Lima", 19.0, 0)
    connection.start()

    receiveAll(session, queue, "JMSType = 'WeatherReport' AND city LIKE 'O%' AND wind > 20")
    receiveAll(session, queue, "degrees BETWEEN 15 AND 25 AND city NOT IN ('Lima', 'Rome')")
    receiveAll(session, queue, "wind IS NULL")
    receiveAll(session, queue, "degrees * 1.8 + 32 < 32 OR NOT (wind <> 0)")

    try:
        session.createConsumer(queue, "degrees >")
    except InvalidSelectorException:
        print("degrees >: not a selector")
    connection.close()


if __name__ == "__main__":
    main("vm://weather")
