"""Which class of Python a class of Java is, and what to do about those that are none."""

from __future__ import annotations

from collections.abc import Mapping

from pyjms.porting.types import LIBRARY_TYPES, PACKAGES

__all__ = ["CLASS_CODES", "PROVIDERS", "unknown_class_advice"]

PROVIDERS: Mapping[str, str] = {
    "ActiveMQConnectionFactory": "ConnectionFactory",
    "ActiveMQJMSConnectionFactory": "ConnectionFactory",
    "ActiveMQQueueConnectionFactory": "QueueConnectionFactory",
    "ActiveMQTopicConnectionFactory": "TopicConnectionFactory",
    "ActiveMQPooledConnectionFactory": "ConnectionFactory",
    "ActiveMQXAConnectionFactory": "XAConnectionFactory",
    "PooledConnectionFactory": "ConnectionFactory",
    "JmsConnectionFactory": "ConnectionFactory",
    "RMQConnectionFactory": "ConnectionFactory",
    "StompJmsConnectionFactory": "ConnectionFactory",
}
"""By the simple name of a provider's class of connection factories, what pyjms has for it."""

CLASS_CODES: Mapping[str, str] = {
    "pyjms.AnyConnectionFactory": "ConnectionFactory",
    "pyjms.AnyXAConnectionFactory": "XAConnectionFactory",
    "org.apache.activemq.ActiveMQConnection": "Connection",
    "javax.transaction.xa.Xid": "Xid",
    "javax.transaction.xa.XAResource": "XAResource",
    "javax.transaction.xa.XAException": "XAException",
    "java.lang.Enum": "java.Enum",
    "java.lang.Number": "(int, float)",
    "java.util.Collection": "(list, set)",
    "java.util.Set": "set",
    "java.util.HashSet": "set",
    "java.util.Hashtable": "dict",
    "java.util.Properties": "dict",
    "java.util.Vector": "list",
    "java.util.LinkedHashMap": "dict",
    "java.util.Date": "java.Date",
    "java.util.TimerTask": "java.Object",
    "java.math.BigDecimal": "java.BigDecimal",
    "java.math.BigInteger": "java.BigInteger",
    "java.io.File": "java.File",
    "java.io.InputStream": "java.InputStream",
    "java.io.OutputStream": "java.OutputStream",
    "java.io.Reader": "java.Reader",
    "java.io.Writer": "java.Writer",
    "java.util.concurrent.BlockingQueue": "java.BlockingQueue",
    "java.util.concurrent.Future": "java.Future",
    "java.util.concurrent.ExecutorService": "java.ExecutorService",
    "java.util.concurrent.atomic.AtomicInteger": "java.AtomicNumber",
    "java.util.concurrent.atomic.AtomicLong": "java.AtomicNumber",
    "java.lang.Object": "object",
    "java.lang.String": "str",
    "java.lang.Boolean": "bool",
    "java.lang.Thread": "java.Thread",
    "java.util.Enumeration": "Enumeration",
    "java.util.List": "list",
    "java.util.ArrayList": "list",
    "java.util.Map": "dict",
    "java.util.HashMap": "dict",
    "java.util.Iterator": "java.Iterator",
    "javax.naming.InitialContext": "InitialContext",
    "javax.naming.Context": "InitialContext",
    "javax.naming.NamingException": "NamingException",
    "javax.naming.NameNotFoundException": "NameNotFoundException",
    "java.lang.Throwable": "BaseException",
    "java.lang.Exception": "java.Exception",
    "java.lang.Error": "java.Error",
    "java.lang.AssertionError": "java.AssertionError",
    "java.util.NoSuchElementException": "NoSuchElementException",
    **{
        name: f"java.{name.rpartition('.')[2]}"
        for name in LIBRARY_TYPES
        if name.endswith("Exception")
        and not name.startswith(("javax.", "java.lang."))
        and name != "java.util.NoSuchElementException"
    },
    **{
        f"java.lang.{name}": f"java.{name}"
        for name in (
            "RuntimeException",
            "IllegalStateException",
            "ClassCastException",
            "ArithmeticException",
            "ArrayIndexOutOfBoundsException",
            "StringIndexOutOfBoundsException",
            "NegativeArraySizeException",
            "SecurityException",
            "IllegalMonitorStateException",
            "IllegalThreadStateException",
            "ClassNotFoundException",
            "CloneNotSupportedException",
            "InterruptedException",
        )
    },
    **{
        f"java.lang.{name}": name
        for name in (
            "IllegalArgumentException",
            "NumberFormatException",
            "NullPointerException",
            "UnsupportedOperationException",
            "IndexOutOfBoundsException",
        )
    },
}
"""Classes of the library, for ``isinstance``, and for classes that extend them."""

_ADVICE = {
    "org.springframework.": "write what Spring does: a loop with receive, a listener, or a producer of your own",
    "org.apache.activemq.": "it is ActiveMQ's own: see what pyjms has for it, or leave it out",
    "org.apache.qpid.": "it is Qpid's own: use pyjms.ConnectionFactory with a stomp:// URL",
    "com.ibm.": "it is IBM MQ's own, which speaks no STOMP: use pyjms.ConnectionFactory with the stomp:// URL of a broker that does; "
    "host, port, channel and queue manager become that URL, user and password its options (docs/how-to/stomp.md)",
    "com.sun.messaging.": "it is Open MQ's own, whose broker has a STOMP bridge (imq.bridge.stomp): use "
    "pyjms.ConnectionFactory('stomp://HOST:7672'), with what setProperty gave it as URL and options (docs/how-to/stomp.md)",
    "com.solacesystems.": "it is Solace's own, which speaks no STOMP: use pyjms.ConnectionFactory with the stomp:// URL of a broker that "
    "does; the VPN becomes its virtual host, user and password its options (docs/how-to/stomp.md)",
    "com.tibco.": "it is TIBCO EMS' own, which speaks no STOMP: use pyjms.ConnectionFactory with the stomp:// URL of a broker that does; "
    "user and password are its options (docs/how-to/stomp.md)",
    "weblogic.": "it is WebLogic's own: use pyjms.InitialContext with a jndi.properties that names a broker that speaks STOMP",
    "oracle.jms.": "it is Oracle AQ's own: use pyjms.ConnectionFactory with the stomp:// URL of a broker that speaks STOMP",
    "org.hornetq.": "it is HornetQ's own: use pyjms.ConnectionFactory with the stomp:// URL of its STOMP acceptor, or of Artemis'",
    "org.jboss.": "it is JBoss' own: use pyjms.ConnectionFactory with the stomp:// URL of its STOMP acceptor",
    "com.rabbitmq.": "it is RabbitMQ's own: use pyjms.ConnectionFactory with the stomp:// URL of its STOMP plugin",
    "javax.transaction.": "distributed transactions are pyjms.XAResource: docs/how-to/transactions.md",
    "javax.transaction.xa.": "distributed transactions are pyjms.XAResource and pyjms.Xid: docs/how-to/transactions.md",
    "javax.jms.JMS": "it is of JMS 2.0: pyjms has JMS 1.1, with Connection, Session, MessageProducer and MessageConsumer",
}


def unknown_class_advice(name: str) -> str:
    """Return what to do about a class that there is no translation for."""
    for prefix, advice in _ADVICE.items():
        if name.startswith(prefix):
            return advice
    if name.rpartition(".")[0] in PACKAGES:
        return "find what Python has for it"
    return "port the file that has it together with this one, or find what Python has for it"
