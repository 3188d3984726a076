"""One fault for each test of the suite that no other mutant shows to be able to fail."""

from __future__ import annotations

from typing import Any

from tests.tck.broken.mutation import body, edit, mutant, value

__all__ = ["MUTANTS"]

_S = "pyjms.runtime.session:JmsSession."
_CONSUMER = "pyjms.runtime.consumer:JmsMessageConsumer."
_VM = "pyjms_provider.clients.vm:VmSession."
_DOMAINS = "pyjms.runtime.domains:"
_DESTINATIONS = "pyjms.messages.destinations:"
_TAKE = "deliveries = self.unacked.take()"


def _with_argument(self: object, which: object) -> None:
    """Stand for a method that has no argument."""


def _other_name(self: object, request: Any) -> None:
    """Stand for a method whose argument has another name."""


def _elsewhere(self: object) -> str:
    """Stand for a Java name that is no alias."""
    return "elsewhere"


MUTANTS = (
    # messages and sending
    mutant(
        "3.11.4-a",
        "a message without body arrives as a TextMessage",
        edit("pyjms.messages.freeze:thaw", "_CLASSES[envelope.body_kind]", "_CLASSES[envelope.body_kind or 1]"),
    ),
    mutant(
        "4.4.5-a",
        "create_message returns one message again and again",
        edit(
            _S + "create_message",
            "return JmsMessage()",
            "self._only = getattr(self, '_only', None) or JmsMessage()\n    return self._only",
        ),
    ),
    mutant(
        "4.6-d",
        "the defaults of a producer with a destination are ignored",
        edit(
            "pyjms.runtime.producer:JmsMessageProducer.send",
            "mode, priority, time_to_live, delay = self._defaults",
            "mode, priority, time_to_live, delay = 2, 4, 0, 0",
        ),
    ),
    # acknowledgement and transactions
    mutant(
        "4.4.11-e",
        "acknowledge covers all sessions of its connection",
        edit(
            _S + "acknowledge",
            _TAKE,
            _TAKE
            + "\n    for each in self.connection._sessions: each.provider_session.acknowledge(each.unacked.take())",
        ),
    ),
    mutant(
        "4.4.11-e",
        "a session acknowledges by itself after the first acknowledge",
        edit(_S + "acknowledge", _TAKE, _TAKE + "\n    self.settles_at_once = True"),
    ),
    mutant(
        "4.4.12-a",
        "acknowledgements are not kept",
        body("pyjms_provider.core.journal.storage_manager:StorageManager.write_settled", "return"),
        durable=True,
    ),
    mutant(
        "4.4.7-a",
        "a transaction sends to its first destination only",
        edit(
            _VM + "send",
            "if self._closed:",
            "sent = [] if self._unit is None else self._unit.sent()\n"
            "    if sent and envelope.destination.name not in sent[0].queue.name: return\n"
            "    if self._closed:",
        ),
    ),
    mutant(
        "4.4.10.2-b",
        "every second transaction overtakes",
        edit(
            "pyjms_provider.core.queue.queue:Queue.commit",
            "for entry in entries:",
            "entries = list(entries)\n"
            "        for entry in entries:\n"
            "            entry.reference.priority = 9 if entries[0].reference.id % 2 else 0",
        ),
    ),
    # receiving
    mutant(
        "4.5.1-a",
        "receive leaves out every second message",
        edit(
            _CONSUMER + "receive", "message = session.take(", "session.take(self)\n            message = session.take("
        ),
    ),
    mutant(
        "4.5.1-b",
        "a receive that waits returns null when a message comes",
        edit(_CONSUMER + "_wait", "message = session.take(self, or_enter=True)", "return None"),
    ),
    mutant(
        "4.5-b", "a closed consumer tells its selector", body(_CONSUMER + "_check_open", "self._session.check_open()")
    ),
    mutant(
        "4.5-b",
        "close of a consumer takes the next message with it",
        edit(
            _CONSUMER + "close",
            "self._session.close_consumer",
            "self._session.take(self)\n    self._session.close_consumer",
        ),
    ),
    mutant(
        "4.4.2-c",
        "an empty selector of a consumer chooses nothing",
        edit(_S + "_subscribe", "destination, selector,", "destination, 'FALSE' if selector == '' else selector,"),
    ),
    # domains
    mutant(
        "5.1-a 6.1-a",
        "sessions of a domain refuse the common methods",
        edit(
            _S + "create_producer",
            "self.check_open()",
            "self.check_open()\n    if type(self).__name__ != 'JmsSession': raise IllegalStateException('not in this domain')",
        ),
    ),
    mutant(
        "5.1-a 5.7-c",
        "receivers have queues of their own",
        edit(
            _DOMAINS + "JmsQueueSession.create_receiver",
            "self.create_consumer(queue,",
            "self.create_consumer(self.create_queue('own.' + queue.queue_name),",
        ),
    ),
    mutant(
        "6.1-a 6.9-c",
        "subscribers have topics of their own",
        edit(
            _DOMAINS + "JmsTopicSession.create_subscriber",
            "self.create_consumer(topic,",
            "self.create_consumer(self.create_topic('own.' + topic.topic_name),",
        ),
    ),
    mutant(
        "5.9-b",
        "a browser begins with an empty message",
        edit(
            "pyjms.runtime.consumer:JmsQueueBrowser._walk",
            "for delivery in",
            "yield self._session.create_text_message()\n        for delivery in",
        ),
    ),
    mutant(
        "5.9-c",
        "an empty selector of a browser chooses nothing",
        edit(
            _S + "create_browser",
            "selector_of(message_selector)",
            "selector_of('FALSE' if message_selector == '' else message_selector)",
        ),
    ),
    mutant(
        "6.11.1-b",
        "each subscriber with a selector replaces its durable subscription",
        edit(
            "pyjms_provider.core.host.virtual_host:HostSubscriptions._subscribe_durably",
            "subscription.terms.is_same(terms)",
            "subscription.terms.is_same(terms) and terms.selector_text is None",
        ),
    ),
    mutant(
        "6.11.1-f",
        "durable subscribers leave out what their own connection publishes",
        edit(_S + "create_durable_subscriber", "no_local=no_local", "no_local=True"),
    ),
    # application servers
    mutant(
        "8.2.3-a",
        "only the first of several messages is loaded",
        edit(
            "pyjms.runtime.server_sessions:JmsConnectionConsumer._load",
            "session.load(deliveries, self._rest)",
            "session.load(deliveries[:1], self._rest)",
        ),
    ),
    mutant(
        "8.2.4-b",
        "topic connections make no connection consumers",
        body(
            _DOMAINS + "JmsTopicConnection.create_connection_consumer", "raise IllegalStateException('for queues only')"
        ),
    ),
    # names
    mutant(
        "11.4-a",
        "getQueue of a browser takes an argument",
        value("pyjms.runtime.consumer:JmsQueueBrowser.getQueue", _with_argument),
    ),
    *(
        mutant("11.5-a", f"{java} of a {kind} is another method", value(f"{_DESTINATIONS}Jms{kind}.{java}", _elsewhere))
        for kind, java in (
            ("Topic", "getTopicName"),
            ("TemporaryQueue", "getQueueName"),
            ("TemporaryTopic", "getTopicName"),
        )
    ),
    mutant(
        "11.8-a",
        "the argument of a topic request is called request",
        value("pyjms.runtime.requestor:TopicRequestor.request", _other_name),
    ),
    mutant(
        "11.10-a",
        "createXAQueueSession takes an argument",
        value("pyjms.runtime.xa:JmsXAQueueConnection.createXAQueueSession", _with_argument),
        durable=True,
    ),
)
