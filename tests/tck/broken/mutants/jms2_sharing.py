"""Faults in the sessions, durable consumers and shared subscriptions of JMS 2.0 (20.1, 20.2)."""

from __future__ import annotations

from tests.tck.broken.mutation import body, edit, mutant

__all__ = ["MUTANTS"]

_S = "pyjms.runtime.session:JmsSession."
_CONNECTION = "pyjms.runtime.connection:JmsConnection."
_CHECKS = "pyjms.runtime.checks:"
_DOMAINS = "pyjms.runtime.domains:"
_SUBSCRIPTIONS = "pyjms_provider.core.host.virtual_host:HostSubscriptions."


MUTANTS = (
    # 20.1 sessions and durable consumers
    mutant(
        "20.1-a",
        "a session without arguments acknowledges by the client",
        edit(
            _CHECKS + "session_mode",
            "_ACKNOWLEDGE_MODE, AcknowledgeMode.AUTO",
            "_ACKNOWLEDGE_MODE, AcknowledgeMode.CLIENT",
        ),
    ),
    mutant(
        "20.1-b",
        "a mode alone is taken for whether a session is transacted",
        edit(_CHECKS + "session_mode", "len(arguments) == 1 and not named", "len(arguments) == 3 and not named"),
    ),
    mutant(
        "20.1-c",
        "a durable consumer is a consumer of a topic",
        edit(_S + "create_durable_consumer", ", durable_name=name", ""),
    ),
    mutant(
        "20.1-d 20.1-e",
        "a durable consumer ignores its selector",
        edit(_S + "create_durable_consumer", "(topic, message_selector", "(topic, None"),
    ),
    mutant(
        "20.1-d",
        "a durable consumer ignores no_local",
        edit(_S + "create_durable_consumer", "no_local=no_local", "no_local=False"),
    ),
    mutant(
        "20.1-e 20.2-g 20.2-m 20.2-q 20.10-h 20.10-k 20.10-n",
        "a subscription without a topic is any JMSException",
        edit(_CHECKS + "_check_topic", "InvalidDestinationException", "JMSException"),
    ),
    mutant(
        "20.1-f 20.10-g",
        "a durable consumer without a client identifier is any JMSException",
        edit(_CHECKS + "check_client_id", "IllegalStateException", "JMSException"),
    ),
    mutant(
        "20.1-f",
        "the broker alone asks for the client identifier of a durable consumer",
        edit(_CHECKS + "check_durable", "check_client_id(connection,", "str("),
    ),
    mutant(
        "20.1-g",
        "a QueueSession has durable consumers",
        body(
            _DOMAINS + "JmsQueueSession.create_durable_consumer",
            "return JmsSession.create_durable_consumer(self, topic, name, message_selector, no_local)",
        ),
    ),
    mutant(
        "20.1-g",
        "a QueueSession has shared consumers",
        body(
            _DOMAINS + "JmsQueueSession.create_shared_consumer",
            "return JmsSession.create_shared_consumer(self, topic, shared_subscription_name, message_selector)",
        ),
    ),
    # 20.2 shared subscriptions
    mutant(
        "20.2-a 20.2-c 20.2-e 20.2-o 20.10-i 20.10-j",
        "each shared consumer has a subscription of its own",
        edit(_SUBSCRIPTIONS + "_share", "self._shared.get(key)", "None"),
    ),
    mutant(
        "20.2-a",
        "a shared consumer takes the messages of other subscriptions, too",
        edit(
            "pyjms_provider.core.topic:Topic.wanting",
            "return wanting",
            "return [each for each in wanting if each.terms.is_shared] or wanting",
        ),
    ),
    mutant(
        "20.2-b",
        "a shared subscription stays without consumers",
        edit(
            _SUBSCRIPTIONS + "end",
            "subscription.is_durable or",
            "subscription.is_durable or subscription.terms.is_shared or",
        ),
    ),
    mutant(
        "20.2-b",
        "a shared subscription ends with its first consumer",
        edit(_SUBSCRIPTIONS + "end", "subscription.is_durable or subscription.users", "subscription.is_durable"),
    ),
    mutant(
        "20.2-c 20.10-i",
        "a shared subscription belongs to a connection",
        edit(
            _SUBSCRIPTIONS + "_share", 'client_id or "", request.shared_name', "repr(subscriber), request.shared_name"
        ),
    ),
    mutant(
        "20.2-d 20.2-e 20.2-g 20.10-i 20.10-j 20.10-k",
        "a shared consumer ignores its selector",
        edit(_S + "create_shared_consumer", "(topic, message_selector", "(topic, None"),
    ),
    mutant(
        "20.2-e 20.10-j",
        "a shared subscription keeps its topic and its selector without a word",
        edit(_SUBSCRIPTIONS + "_share", "elif not found.terms.is_same(terms)", "elif terms is None"),
    ),
    mutant(
        "20.2-f 20.2-b",
        "all shared subscriptions are durable",
        edit(
            _S + "create_shared_consumer",
            "shared_name=shared_subscription_name",
            "durable_name=shared_subscription_name, is_shared=True",
        ),
    ),
    mutant(
        "20.2-h 20.2-p 20.10-l",
        "a shared durable subscription has one consumer",
        edit(
            _SUBSCRIPTIONS + "_subscribe_durably",
            "subscription.is_active and not terms.is_shared",
            "subscription.is_active",
        ),
    ),
    mutant(
        "20.2-i 20.2-f",
        "shared durable subscriptions are not durable",
        edit(_S + "create_shared_durable_consumer", "durable_name=name, is_shared=True", "shared_name=name"),
    ),
    mutant(
        "20.2-j 20.2-k 20.2-l 20.2-m 20.10-l 20.10-m 20.10-n",
        "a shared durable consumer ignores its selector",
        edit(_S + "create_shared_durable_consumer", "(topic, message_selector", "(topic, None"),
    ),
    mutant(
        "20.2-k 20.2-l 20.10-m",
        "a shared durable subscription keeps its topic and its selector without a word",
        edit(
            _SUBSCRIPTIONS + "_subscribe_durably",
            "if subscription is not None and subscription.terms.is_same(terms)",
            "if subscription is not None and (terms.is_shared or subscription.terms.is_same(terms))",
        ),
    ),
    mutant(
        "20.2-n",
        "a shared durable subscription takes the place of an unshared one",
        edit(_SUBSCRIPTIONS + "_subscribe_durably", "subscription.terms.is_shared != terms.is_shared", "key is None"),
    ),
    mutant(
        "20.2-o",
        "a shared connection consumer has a subscription of its own",
        edit(_CONNECTION + "create_shared_connection_consumer", ", shared_name=subscription_name", ""),
    ),
    mutant(
        "20.2-p",
        "a shared durable connection consumer is not durable",
        edit(
            _CONNECTION + "create_shared_durable_connection_consumer",
            "durable_name=subscription_name, is_shared=True",
            "shared_name=subscription_name",
        ),
    ),
    mutant(
        "20.2-q",
        "a QueueConnection has shared connection consumers",
        *(
            body(
                f"{_DOMAINS}JmsQueueConnection.{name}",
                f"return JmsConnection.{name}(self, topic, subscription_name, message_selector, session_pool, max_messages)",
            )
            for name in ("create_shared_connection_consumer", "create_shared_durable_connection_consumer")
        ),
    ),
    mutant(
        "20.2-q",
        "shared connection consumers ignore their selector",
        edit(
            _CONNECTION + "create_shared_connection_consumer",
            "topic, message_selector, session",
            "topic, None, session",
        ),
        edit(
            _CONNECTION + "create_shared_durable_connection_consumer",
            "topic, message_selector, session",
            "topic, None, session",
        ),
    ),
)
