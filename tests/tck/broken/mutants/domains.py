"""Queues, browsers, topics, durable subscriptions, temporary destinations, requestors."""

from __future__ import annotations

from tests.tck.broken.mutation import body, edit, mutant

__all__ = ["MUTANTS"]

_S = "pyjms.runtime.session:JmsSession."
_HOST = "pyjms_provider.core.host.virtual_host:VirtualHost."
_SUBSCRIPTIONS = "pyjms_provider.core.host.virtual_host:HostSubscriptions."
_TEMPORARIES = "pyjms_provider.core.host.temporaries:TemporaryDestinations."
_BROWSER = "pyjms.runtime.consumer:JmsQueueBrowser."
_TOPIC = "pyjms_provider.core.topic:Topic."
_QUEUE = "pyjms_provider.core.queue.queue:Queue."
_TEMPORARY = "4.4.3-c 5.4-a 6.6-b"
_REQUESTOR = "pyjms.runtime.requestor:"
_SUBSCRIBER = "pyjms.runtime.consumer:JmsTopicSubscriber."
_DOMAINS = "pyjms.runtime.domains:"
_SUBSCRIBE = _SUBSCRIPTIONS + "_subscribe_durably"

MUTANTS = (
    # queues
    mutant(
        "5.1-a",
        "queue sessions have queues of their own",
        edit(
            _DOMAINS + "JmsQueueSession.create_sender",
            "(JmsQueueSender, queue)",
            "(JmsQueueSender, None if queue is None else type(queue)(queue.queue_name + '!') if type(queue).__name__ == 'JmsQueue' else queue)",
        ),
    ),
    mutant(
        "5.1-b",
        "a queue holds text messages only",
        edit(_S + "create_map_message", "self.check_open()", "self.check_open()\n    return JmsTextMessage()"),
        edit(_S + "create_bytes_message", "self.check_open()", "self.check_open()\n    return JmsTextMessage()"),
    ),
    mutant(
        "5.6-a",
        "a queue session is a common session",
        edit(_DOMAINS + "JmsQueueConnection.create_queue_session", "JmsQueueSession", "JmsSession"),
    ),
    mutant(
        "6.8-a",
        "a topic session is a common session",
        edit(_DOMAINS + "JmsTopicConnection.create_topic_session", "JmsTopicSession", "JmsSession"),
    ),
    mutant(
        "5.7-a 6.9-a 4.3.5-d 6.12-b",
        "what a closed session received is lost",
        edit("pyjms_provider.core.queue.consumer:ConsumerSession.close", "give_back_all(self)", "consumer_count"),
    ),
    mutant(
        "5.8-c",
        "a receiver does not know its queue",
        edit("pyjms.runtime.consumer:JmsQueueReceiver.queue", "return self._destination", "return None"),
    ),
    mutant(
        "5.11-a",
        "a queue without consumers holds nothing",
        edit(
            _HOST + "route",
            "admission: SendPermit | None = None",
            "if isinstance(channel, Queue) and not channel.consumer_count: return\n    admission: SendPermit | None = None",
        ),
    ),
    mutant(
        "5.8-a",
        "what a selector leaves out is dropped",
        edit(
            "pyjms_provider.core.queue.pager:Pager.matcher",
            "return lambda entry: matches(retrieve(entry.reference))",
            "return lambda entry: matches(retrieve(entry.reference)) or (self._queue.state.remove(entry, MessageEvent.REMOVE) and False)",
        ),
    ),
    # browsers
    mutant(
        "5.9-a",
        "a browser takes what it shows",
        edit(
            _BROWSER + "_walk",
            "yield thaw(delivery, context)",
            "found = thaw(delivery, context)\n            self._session.create_consumer(self._queue).receive_no_wait()\n            yield found",
        ),
    ),
    mutant(
        "5.9-b",
        "a browser shows the first message only",
        edit(
            _BROWSER + "_walk",
            "yield thaw(delivery, context)",
            "yield thaw(delivery, context)\n            return",
        ),
    ),
    mutant("5.9-b 5.9-c", "a browser ignores its selector", edit(_BROWSER + "_walk", "self._selector)", "None)")),
    mutant("5.9-f", "a browser does not know its queue", edit(_BROWSER + "queue", "return self._queue", "return None")),
    mutant(
        "5.9-g",
        "a browser does not know its selector",
        edit(_BROWSER + "message_selector", "None if self._selector is None else self._selector.text", "''"),
    ),
    mutant(
        "5.9-h",
        "a browser shows the last message first",
        edit(
            _BROWSER + "_walk",
            "self._session.provider_session.browse(self._address, self._selector)",
            "reversed(list(self._session.provider_session.browse(self._address, self._selector)))",
        ),
    ),
    mutant("5.9-i 4.4.1-e 4.3.5-j", "a closed browser can be used", body(_BROWSER + "_check_open", "pass")),
    mutant(
        "5.9-j",
        "a browser raises when a message arrives",
        edit(
            "pyjms_provider.core.queue.search:QueueBrowser.next",
            "found = queue.ordering.peek(self.cursor, EVALUATIONS)",
            "found = queue.ordering.peek(self.cursor, EVALUATIONS)\n                from pyjms.spi.errors import ClosedError\n                from pyjms_provider.core.message.message_state import MessageState\n                if queue.state.count(MessageState.NEW) != getattr(queue, 'seen', None):\n                    if hasattr(queue, 'seen'): raise ClosedError('changed meanwhile')\n                    queue.seen = queue.state.count(MessageState.NEW)",
        ),
    ),
    mutant(
        "5.9-d",
        "a browser of no queue raises TypeError",
        edit(_S + "create_browser", "raise InvalidDestinationException(", "raise TypeError("),
    ),
    # temporary destinations
    mutant(
        "4.4.3-a 5.4-a 5.7-h",
        "create_temporary_queue makes an ordinary queue",
        edit(
            _S + "create_temporary_queue",
            "return self.connection.temporaries.create_queue()",
            "return JmsQueue(self.next_message_id())",
        ),
    ),
    mutant(
        "4.4.3-b 6.6-a 6.9-h",
        "create_temporary_topic makes an ordinary topic",
        edit(
            _S + "create_temporary_topic",
            "return self.connection.temporaries.create_topic()",
            "return JmsTopic(self.next_message_id())",
        ),
    ),
    mutant(
        _TEMPORARY,
        "everyone can consume from a temporary destination",
        edit(_TEMPORARIES + "owned", "if found.owner != owner:", "if False:"),
    ),
    mutant(
        "4.4.3-d",
        "only the session that made a temporary destination can consume from it",
        edit(
            _S + "_subscribe",
            "consumer = class_in_use",
            "if request.address.temporary and not any(each is self for each in list(self.connection._sessions)[:1]): raise InvalidDestinationException('not of this session')\n    consumer = class_in_use",
        ),
    ),
    mutant(
        "4.4.3-e",
        "temporary destinations of a connection are one",
        edit(_TEMPORARIES + "create", "{next(self._numbers)}", "1"),
    ),
    mutant(
        "4.4.3-f 6.6-a",
        "temporary destinations outlive their connection",
        edit(_TEMPORARIES + "end_connection", "self._by_owner.get(owner, {})", "{}"),
    ),
    mutant(
        "5.4-b 6.6-c",
        "a temporary destination in use can be deleted",
        edit(_TEMPORARIES + "delete", "if users:", "if False:"),
    ),
    mutant(
        "5.4-b 6.6-c 7.3-e 5.7-g 6.9-g",
        "delete of a temporary destination does nothing",
        edit("pyjms.messages.destinations:_Temporary.delete", "self._delete(self._address)", "pass"),
    ),
    # requestors
    mutant(
        "5.10-a",
        "a queue requestor names no reply queue",
        edit(
            _REQUESTOR + "QueueRequestor.request",
            "message.jms_reply_to = self._replies.destination()",
            "message.jms_reply_to = None",
        ),
    ),
    mutant("5.10-b", "a queue requestor takes any session", body(_REQUESTOR + "_check_not_transacted", "pass")),
    mutant(
        "5.10-b",
        "a queue requestor needs a transacted session",
        edit(_REQUESTOR + "_check_not_transacted", "if session.transacted", "if not session.transacted"),
    ),
    mutant(
        "5.10-d",
        "close of a queue requestor leaves its session open",
        edit(_REQUESTOR + "QueueRequestor.close", "self._session.close()", "pass"),
    ),
    mutant(
        "6.14-a",
        "a topic requestor names no reply topic",
        edit(
            _REQUESTOR + "TopicRequestor.request",
            "message.jms_reply_to = self._replies.destination()",
            "message.jms_reply_to = None",
        ),
    ),
    mutant(
        "6.14-b",
        "a topic requestor needs a transacted session",
        edit(_REQUESTOR + "_check_not_transacted", "if session.transacted", "if not session.transacted"),
    ),
    mutant(
        "6.14-d",
        "close of a topic requestor leaves its session open",
        edit(_REQUESTOR + "TopicRequestor.close", "self._session.close()", "pass"),
    ),
    # topics
    mutant(
        "6.1-a",
        "topic sessions have topics of their own",
        edit(
            _DOMAINS + "JmsTopicSession.create_publisher",
            "(JmsTopicPublisher, topic)",
            "(JmsTopicPublisher, None if topic is None else type(topic)(topic.topic_name + '!') if type(topic).__name__ == 'JmsTopic' else topic)",
        ),
    ),
    mutant(
        "6.3-b 6.11-a",
        "a nondurable subscription keeps messages for the next subscriber",
        edit(
            _SUBSCRIPTIONS + "subscribe",
            "if request.durable_name is None:",
            "if request.durable_name is None and client_id is None and not address.temporary:\n        return self._subscribe_durably(SubscriptionKey('all', address.name), request, subscriber)\n    if request.durable_name is None:",
        ),
    ),
    mutant(
        "6.11-f",
        "a subscriber does not know its topic",
        edit(_SUBSCRIBER + "topic", "return self._destination", "return None"),
    ),
    mutant(
        "6.11-c 6.9-c 4.4.2-c 6.11.1-f",
        "noLocal is ignored",
        body("pyjms_provider.core.topic:Subscription.leaves_out", "return False"),
    ),
    mutant(
        "6.11-d 6.11-e 4.4.9-a",
        "a message goes to one subscriber of a topic",
        edit(_TOPIC + "wanting", "return wanting", "return wanting[:1]"),
    ),
    mutant(
        "6.11-d",
        "one acknowledgement settles all copies",
        edit(
            _TOPIC + "pass_on",
            "subscription.enqueue(reference, transaction)",
            "subscription.enqueue(reference, transaction) if subscription is wanting[-1] else None",
        ),
    ),
    mutant(
        "6.11-e",
        "two subscribers of a session share a subscription",
        edit(_TOPIC + "wanting", "return wanting", "return list({each.subscriber: each for each in wanting}.values())"),
    ),
    mutant(
        "6.11-g 6.9-c",
        "a subscriber says noLocal by default",
        edit(_SUBSCRIBER + "no_local", "return self._no_local", "return True"),
    ),
    mutant(
        "6.11-b",
        "a subscriber's selector is ignored",
        edit(_TOPIC + "wanting", "= addressees.everybody", "= tuple(group for _, group in addressees.groups)"),
    ),
    mutant(
        "6.12-a",
        "what a nondurable subscriber received is not recovered",
        edit(
            _S + "recover",
            "self.provider_session.recover([*deliveries, *pending])",
            "self.provider_session.acknowledge([*deliveries, *pending])",
        ),
    ),
    mutant(
        "6.12-c 6.11-a",
        "persistent messages outlive a nondurable subscriber",
        edit(
            _SUBSCRIPTIONS + "subscribe",
            "if request.durable_name is None:",
            "if request.durable_name is None and client_id is None and not address.temporary:\n        return self._subscribe_durably(SubscriptionKey('all', address.name), request, subscriber)\n    if request.durable_name is None:",
        ),
    ),
    # durable subscriptions
    mutant(
        "6.3-a 6.3-c 6.3-d 6.12-b 6.11.1-a",
        "durable subscriptions end with their subscriber",
        edit(
            _SUBSCRIPTIONS + "end",
            "if subscription.is_durable or subscription.users:",
            "if subscription.is_durable:\n            self._durable = {key: each for key, each in self._durable.items() if each is not subscription}\n        if False:",
        ),
    ),
    mutant(
        "6.3-d 6.11.1-a",
        "a durable subscription keeps nothing while it is inactive",
        edit(_TOPIC + "wanting", "return wanting", "return [each for each in wanting if each.is_active]"),
    ),
    mutant(
        "6.3-c",
        "a durable subscription goes on from its beginning",
        edit(
            _SUBSCRIPTIONS + "end",
            "if subscription.is_durable or subscription.users:",
            "if subscription.is_durable:\n            subscription.terms = SubscriptionTerms(topic=subscription.terms.topic, selector_text='again', no_local=True)\n        if subscription.is_durable:",
        ),
    ),
    mutant(
        "6.11.1-a 6.11.1-e",
        "a durable subscription may have two subscribers",
        edit(
            _SUBSCRIBE,
            "if key in self._changing or (subscription is not None and subscription.is_active and not terms.is_shared):",
            "if False:",
        ),
        edit("pyjms_provider.core.host.virtual_host:_check_settled", "if unsettled:", "if False:"),
    ),
    mutant(
        "6.11.1-b",
        "a durable subscription stays when its selector changes",
        edit(_SUBSCRIBE, "subscription.terms.is_same(terms)", "True"),
    ),
    mutant(
        "6.11.1-c 6.3-a",
        "unsubscribe does nothing",
        edit(_SUBSCRIPTIONS + "_unsubscribe", "self._drop_durable(key, subscription)", "pass"),
    ),
    mutant(
        "6.11.1-c",
        "unsubscribe deletes a subscription in use",
        edit(_SUBSCRIPTIONS + "_unsubscribe", "if key in self._changing or subscription.is_active:", "if False:"),
    ),
    mutant(
        "6.11.1-d",
        "unsubscribe of an unknown name does nothing",
        edit(
            _SUBSCRIPTIONS + "_unsubscribe",
            "raise UnknownSubscriptionError(",
            "return\n            raise UnknownSubscriptionError(",
        ),
    ),
    mutant(
        "6.11.1-e",
        "a durable subscription in use is replaced",
        edit(_SUBSCRIBE, "subscription.is_active", "False"),
    ),
    mutant(
        "6.11.1-f",
        "a durable subscriber loses its selector",
        edit(
            _S + "create_durable_subscriber",
            "_subscribe_topic(topic, message_selector,",
            "_subscribe_topic(topic, None,",
        ),
    ),
    mutant(
        "6.11.1-g",
        "a durable subscriber of no topic raises TypeError",
        edit(
            "pyjms.runtime.checks:_check_topic",
            "raise InvalidDestinationException(",
            "raise TypeError(",
        ),
    ),
)
