"""The five kinds of message, and the rules for reading them."""

from datetime import date

from pyjms import (
    BytesMessage,
    ConnectionFactory,
    MapMessage,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    ObjectMessage,
    Session,
    StreamMessage,
    TextMessage,
)


def send(session, producer):
    producer.send(session.createTextMessage("<order id='7'/>"))

    mapMessage = session.createMapMessage()
    mapMessage.setString("article", "lamp")
    mapMessage.setInt("quantity", 3)
    mapMessage.setBytes("barcode", bytes([1, 2, 3]))
    producer.send(mapMessage)

    streamMessage = session.createStreamMessage()
    streamMessage.writeString("lamp")
    streamMessage.writeShort(3)
    producer.send(streamMessage)

    bytesMessage = session.createBytesMessage()
    bytesMessage.writeUTF("lämp")
    bytesMessage.writeByte(-1)
    try:
        bytesMessage.readByte()
    except MessageNotReadableException:
        print("A new BytesMessage is write-only")
    producer.send(bytesMessage)

    objectMessage = session.createObjectMessage()
    objectMessage.setObject(date(2003, 3, 16))
    producer.send(objectMessage)


def read(message):
    if isinstance(message, TextMessage):
        print("Text: " + message.getText())
        try:
            message.setText("changed")
        except MessageNotWriteableException:
            print("A received message is read-only")
    elif isinstance(message, MapMessage):
        quantity = message.getLong("quantity")  # an int can be read as a long
        print("Map: " + str(quantity) + " " + message.getString("article"))
        try:
            message.getShort("quantity")  # but not as a short
        except MessageFormatException:
            print("An int is not a short")
    elif isinstance(message, StreamMessage):
        print("Stream: " + message.readString() + " " + str(message.readInt()))
        try:
            message.readInt()
        except MessageEOFException:
            print("The stream is at its end")
    elif isinstance(message, BytesMessage):
        print("Bytes: " + message.readUTF() + " " + str(message.readUnsignedByte()))
    elif isinstance(message, ObjectMessage):
        print("Object: " + message.getObject().isoformat())


def main(url):
    connection = ConnectionFactory(url).createConnection()
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.createQueue("mixture")
    send(session, session.createProducer(queue))
    connection.start()
    consumer = session.createConsumer(queue)
    for _ in range(5):
        read(consumer.receive(5000))
    connection.close()


if __name__ == "__main__":
    main("vm://types")
