"""Which class of Python a class of Java is, and what to do about those that are none."""

from __future__ import annotations

from collections.abc import Mapping

from pyjms.porting.types import PACKAGES

__all__ = ["CLASS_CODES", "PROVIDERS", "unknown_class_advice"]

PROVIDERS: Mapping[str, str] = {
    "ActiveMQConnectionFactory": "ConnectionFactory",
    "ActiveMQJMSConnectionFactory": "ConnectionFactory",
    "ActiveMQQueueConnectionFactory": "QueueConnectionFactory",
    "ActiveMQTopicConnectionFactory": "TopicConnectionFactory",
    "JmsConnectionFactory": "ConnectionFactory",
    "RMQConnectionFactory": "ConnectionFactory",
    "StompJmsConnectionFactory": "ConnectionFactory",
}
"""By the simple name of a provider's class of connection factories, what pyjms has for it."""

CLASS_CODES: Mapping[str, str] = {
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
    "java.io.IOException": "java.IOException",
    "java.util.concurrent.TimeoutException": "java.TimeoutException",
    "java.util.NoSuchElementException": "NoSuchElementException",
    **{
        f"java.lang.{name}": f"java.{name}"
        for name in (
            "RuntimeException",
            "IllegalStateException",
            "ClassCastException",
            "ArithmeticException",
            "ArrayIndexOutOfBoundsException",
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
    "com.ibm.": "it is IBM MQ's own: use pyjms.ConnectionFactory with the URL of a broker that speaks STOMP",
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
