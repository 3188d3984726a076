"""The connection factories of providers, and what to do about classes that have no translation."""

from __future__ import annotations

from collections.abc import Mapping

from pyjms.porting.types import PACKAGES

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
