"""What each type of javax.jms has: its supertypes, and its members with their types in Java (JMS 1.1).

A test compares this with the specification's own data. `pyjms.porting.types` reads it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["JMS"]

JMS: Final = """
interface BytesMessage < Message
  long getBodyLength()
  boolean readBoolean()
  byte readByte()
  int readUnsignedByte()
  short readShort()
  int readUnsignedShort()
  char readChar()
  int readInt()
  long readLong()
  float readFloat()
  double readDouble()
  String readUTF()
  int readBytes(byte[])
  int readBytes(byte[], int)
  void writeBoolean(boolean)
  void writeByte(byte)
  void writeShort(short)
  void writeChar(char)
  void writeInt(int)
  void writeLong(long)
  void writeFloat(float)
  void writeDouble(double)
  void writeUTF(String)
  void writeBytes(byte[])
  void writeBytes(byte[], int, int)
  void writeObject(Object)
  void reset()
interface Connection
  Session createSession(boolean, int)
  String getClientID()
  void setClientID(String)
  ConnectionMetaData getMetaData()
  ExceptionListener getExceptionListener()
  void setExceptionListener(ExceptionListener)
  void start()
  void stop()
  void close()
  ConnectionConsumer createConnectionConsumer(Destination, String, ServerSessionPool, int)
  ConnectionConsumer createDurableConnectionConsumer(Topic, String, String, ServerSessionPool, int)
interface ConnectionConsumer
  ServerSessionPool getServerSessionPool()
  void close()
interface ConnectionFactory
  Connection createConnection()
  Connection createConnection(String, String)
interface ConnectionMetaData
  String getJMSVersion()
  int getJMSMajorVersion()
  int getJMSMinorVersion()
  String getJMSProviderName()
  String getProviderVersion()
  int getProviderMajorVersion()
  int getProviderMinorVersion()
  Enumeration getJMSXPropertyNames()
interface DeliveryMode
  int NON_PERSISTENT
  int PERSISTENT
interface Destination
interface ExceptionListener
  void onException(JMSException)
exception IllegalStateException < JMSException
  new(String, String)
  new(String)
exception InvalidClientIDException < JMSException
  new(String, String)
  new(String)
exception InvalidDestinationException < JMSException
  new(String, String)
  new(String)
exception InvalidSelectorException < JMSException
  new(String, String)
  new(String)
exception JMSException < Exception
  new(String, String)
  new(String)
  String getErrorCode()
  Exception getLinkedException()
  void setLinkedException(Exception)
exception JMSSecurityException < JMSException
  new(String, String)
  new(String)
interface MapMessage < Message
  boolean getBoolean(String)
  byte getByte(String)
  short getShort(String)
  char getChar(String)
  int getInt(String)
  long getLong(String)
  float getFloat(String)
  double getDouble(String)
  String getString(String)
  byte[] getBytes(String)
  Object getObject(String)
  Enumeration getMapNames()
  void setBoolean(String, boolean)
  void setByte(String, byte)
  void setShort(String, short)
  void setChar(String, char)
  void setInt(String, int)
  void setLong(String, long)
  void setFloat(String, float)
  void setDouble(String, double)
  void setString(String, String)
  void setBytes(String, byte[])
  void setBytes(String, byte[], int, int)
  void setObject(String, Object)
  boolean itemExists(String)
interface Message
  int DEFAULT_DELIVERY_MODE
  int DEFAULT_PRIORITY
  long DEFAULT_TIME_TO_LIVE
  String getJMSMessageID()
  void setJMSMessageID(String)
  long getJMSTimestamp()
  void setJMSTimestamp(long)
  byte[] getJMSCorrelationIDAsBytes()
  void setJMSCorrelationIDAsBytes(byte[])
  void setJMSCorrelationID(String)
  String getJMSCorrelationID()
  Destination getJMSReplyTo()
  void setJMSReplyTo(Destination)
  Destination getJMSDestination()
  void setJMSDestination(Destination)
  int getJMSDeliveryMode()
  void setJMSDeliveryMode(int)
  boolean getJMSRedelivered()
  void setJMSRedelivered(boolean)
  String getJMSType()
  void setJMSType(String)
  long getJMSExpiration()
  void setJMSExpiration(long)
  int getJMSPriority()
  void setJMSPriority(int)
  void clearProperties()
  boolean propertyExists(String)
  boolean getBooleanProperty(String)
  byte getByteProperty(String)
  short getShortProperty(String)
  int getIntProperty(String)
  long getLongProperty(String)
  float getFloatProperty(String)
  double getDoubleProperty(String)
  String getStringProperty(String)
  Object getObjectProperty(String)
  Enumeration getPropertyNames()
  void setBooleanProperty(String, boolean)
  void setByteProperty(String, byte)
  void setShortProperty(String, short)
  void setIntProperty(String, int)
  void setLongProperty(String, long)
  void setFloatProperty(String, float)
  void setDoubleProperty(String, double)
  void setStringProperty(String, String)
  void setObjectProperty(String, Object)
  void acknowledge()
  void clearBody()
interface MessageConsumer
  String getMessageSelector()
  MessageListener getMessageListener()
  void setMessageListener(MessageListener)
  Message receive()
  Message receive(long)
  Message receiveNoWait()
  void close()
exception MessageEOFException < JMSException
  new(String, String)
  new(String)
exception MessageFormatException < JMSException
  new(String, String)
  new(String)
interface MessageListener
  void onMessage(Message)
exception MessageNotReadableException < JMSException
  new(String, String)
  new(String)
exception MessageNotWriteableException < JMSException
  new(String, String)
  new(String)
interface MessageProducer
  void setDisableMessageID(boolean)
  boolean getDisableMessageID()
  void setDisableMessageTimestamp(boolean)
  boolean getDisableMessageTimestamp()
  void setDeliveryMode(int)
  int getDeliveryMode()
  void setPriority(int)
  int getPriority()
  void setTimeToLive(long)
  long getTimeToLive()
  Destination getDestination()
  void close()
  void send(Message)
  void send(Message, int, int, long)
  void send(Destination, Message)
  void send(Destination, Message, int, int, long)
interface ObjectMessage < Message
  void setObject(Serializable)
  Serializable getObject()
interface Queue < Destination
  String getQueueName()
  String toString()
interface QueueBrowser
  Queue getQueue()
  String getMessageSelector()
  Enumeration getEnumeration()
  void close()
interface QueueConnection < Connection
  QueueSession createQueueSession(boolean, int)
  ConnectionConsumer createConnectionConsumer(Queue, String, ServerSessionPool, int)
interface QueueConnectionFactory < ConnectionFactory
  QueueConnection createQueueConnection()
  QueueConnection createQueueConnection(String, String)
interface QueueReceiver < MessageConsumer
  Queue getQueue()
class QueueRequestor
  new(QueueSession, Queue)
  Message request(Message)
  void close()
interface QueueSender < MessageProducer
  Queue getQueue()
  void send(Message)
  void send(Message, int, int, long)
  void send(Queue, Message)
  void send(Queue, Message, int, int, long)
interface QueueSession < Session
  Queue createQueue(String)
  QueueReceiver createReceiver(Queue)
  QueueReceiver createReceiver(Queue, String)
  QueueSender createSender(Queue)
  QueueBrowser createBrowser(Queue)
  QueueBrowser createBrowser(Queue, String)
  TemporaryQueue createTemporaryQueue()
exception ResourceAllocationException < JMSException
  new(String, String)
  new(String)
interface ServerSession
  Session getSession()
  void start()
interface ServerSessionPool
  ServerSession getServerSession()
interface Session < Runnable
  int AUTO_ACKNOWLEDGE
  int CLIENT_ACKNOWLEDGE
  int DUPS_OK_ACKNOWLEDGE
  int SESSION_TRANSACTED
  BytesMessage createBytesMessage()
  MapMessage createMapMessage()
  Message createMessage()
  ObjectMessage createObjectMessage()
  ObjectMessage createObjectMessage(Serializable)
  StreamMessage createStreamMessage()
  TextMessage createTextMessage()
  TextMessage createTextMessage(String)
  boolean getTransacted()
  int getAcknowledgeMode()
  void commit()
  void rollback()
  void close()
  void recover()
  MessageListener getMessageListener()
  void setMessageListener(MessageListener)
  void run()
  MessageProducer createProducer(Destination)
  MessageConsumer createConsumer(Destination)
  MessageConsumer createConsumer(Destination, String)
  MessageConsumer createConsumer(Destination, String, boolean)
  Queue createQueue(String)
  Topic createTopic(String)
  TopicSubscriber createDurableSubscriber(Topic, String)
  TopicSubscriber createDurableSubscriber(Topic, String, String, boolean)
  QueueBrowser createBrowser(Queue)
  QueueBrowser createBrowser(Queue, String)
  TemporaryQueue createTemporaryQueue()
  TemporaryTopic createTemporaryTopic()
  void unsubscribe(String)
interface StreamMessage < Message
  boolean readBoolean()
  byte readByte()
  short readShort()
  char readChar()
  int readInt()
  long readLong()
  float readFloat()
  double readDouble()
  String readString()
  int readBytes(byte[])
  Object readObject()
  void writeBoolean(boolean)
  void writeByte(byte)
  void writeShort(short)
  void writeChar(char)
  void writeInt(int)
  void writeLong(long)
  void writeFloat(float)
  void writeDouble(double)
  void writeString(String)
  void writeBytes(byte[])
  void writeBytes(byte[], int, int)
  void writeObject(Object)
  void reset()
interface TemporaryQueue < Queue
  void delete()
interface TemporaryTopic < Topic
  void delete()
interface TextMessage < Message
  void setText(String)
  String getText()
interface Topic < Destination
  String getTopicName()
  String toString()
interface TopicConnection < Connection
  TopicSession createTopicSession(boolean, int)
  ConnectionConsumer createConnectionConsumer(Topic, String, ServerSessionPool, int)
  ConnectionConsumer createDurableConnectionConsumer(Topic, String, String, ServerSessionPool, int)
interface TopicConnectionFactory < ConnectionFactory
  TopicConnection createTopicConnection()
  TopicConnection createTopicConnection(String, String)
interface TopicPublisher < MessageProducer
  Topic getTopic()
  void publish(Message)
  void publish(Message, int, int, long)
  void publish(Topic, Message)
  void publish(Topic, Message, int, int, long)
class TopicRequestor
  new(TopicSession, Topic)
  Message request(Message)
  void close()
interface TopicSession < Session
  Topic createTopic(String)
  TopicSubscriber createSubscriber(Topic)
  TopicSubscriber createSubscriber(Topic, String, boolean)
  TopicSubscriber createDurableSubscriber(Topic, String)
  TopicSubscriber createDurableSubscriber(Topic, String, String, boolean)
  TopicPublisher createPublisher(Topic)
  TemporaryTopic createTemporaryTopic()
  void unsubscribe(String)
interface TopicSubscriber < MessageConsumer
  Topic getTopic()
  boolean getNoLocal()
exception TransactionInProgressException < JMSException
  new(String, String)
  new(String)
exception TransactionRolledBackException < JMSException
  new(String, String)
  new(String)
interface XAConnection < Connection
  XASession createXASession()
  Session createSession(boolean, int)
interface XAConnectionFactory
  XAConnection createXAConnection()
  XAConnection createXAConnection(String, String)
interface XAQueueConnection < XAConnection, QueueConnection
  XAQueueSession createXAQueueSession()
  QueueSession createQueueSession(boolean, int)
interface XAQueueConnectionFactory < XAConnectionFactory, QueueConnectionFactory
  XAQueueConnection createXAQueueConnection()
  XAQueueConnection createXAQueueConnection(String, String)
interface XAQueueSession < XASession
  QueueSession getQueueSession()
interface XASession < Session
  Session getSession()
  XAResource getXAResource()
  boolean getTransacted()
  void commit()
  void rollback()
interface XATopicConnection < XAConnection, TopicConnection
  XATopicSession createXATopicSession()
  TopicSession createTopicSession(boolean, int)
interface XATopicConnectionFactory < XAConnectionFactory, TopicConnectionFactory
  XATopicConnection createXATopicConnection()
  XATopicConnection createXATopicConnection(String, String)
interface XATopicSession < XASession
  TopicSession getTopicSession()
"""
