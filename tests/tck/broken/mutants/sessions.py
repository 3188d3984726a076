"""Sessions: what they make, threads, acknowledgement, transactions, order."""

from __future__ import annotations

from tests.tck.broken.mutation import body, edit, mutant, value

__all__ = ["MUTANTS"]

_S = "pyjms.runtime.session:JmsSession."
_UNACKED = "pyjms.runtime.settling:UnackedMessages."
_CONSUMER = "pyjms.runtime.consumer:JmsMessageConsumer."
_VM = "pyjms_provider.clients.vm:VmSession."
_QUEUE = "pyjms_provider.core.queue.queue:Queue."
_SEND = "pyjms.runtime.producer:JmsMessageProducer._send"
_ADDRESS_OF = "pyjms.messages.destinations:address_of"
_NO_THREADS = "if __import__('threading').current_thread() is not __import__('threading').main_thread(): raise IllegalStateException('not on this thread')\n    "
_NO_DESTINATION = "4.4.2-d 5.7-d 5.9-d 6.9-d 6.11.1-g 5.10-c 6.14-c 7.3-e 8.2.4-d"

MUTANTS = (
    # what sessions make
    mutant(
        "4.4.5-a",
        "create_map_message makes a StreamMessage",
        edit(_S + "create_map_message", "JmsMapMessage()", "JmsStreamMessage()"),
    ),
    mutant(
        "4.4.5-b",
        "create_text_message forgets its text",
        edit(_S + "create_text_message", "JmsTextMessage(text)", "JmsTextMessage()"),
    ),
    mutant(
        "4.4.5-b",
        "create_object_message forgets its object",
        edit(_S + "create_object_message", "message.object = object", "pass"),
    ),
    mutant(
        "4.4.5-c",
        "a session sends only messages that are new",
        edit(
            _SEND,
            "own: JmsMessage",
            "if message.jms_message_id is not None: raise JMSException('sent before')\n    own: JmsMessage",
        ),
    ),
    mutant(
        "4.4.4-a 5.7-b 5.3-a",
        "create_queue changes the name",
        edit(_S + "create_queue", "JmsQueue(queue_name)", "JmsQueue(queue_name + '!')"),
    ),
    mutant(
        "4.4.4-b 6.9-b 6.5-a",
        "create_topic changes the name",
        edit(_S + "create_topic", "JmsTopic(topic_name)", "JmsTopic(topic_name + '!')"),
    ),
    mutant(
        "5.3-b 6.5-b",
        "a destination as text is that of any object",
        body("pyjms.messages.destinations:JmsDestination.__str__", "return object.__repr__(self)"),
        body("pyjms.messages.destinations:JmsDestination.to_string", "return ''"),
    ),
    mutant(
        "5.3-a",
        "a queue does not know its name",
        body("pyjms.messages.destinations:JmsQueue.queue_name", "return 'a queue'"),
    ),
    mutant(
        "6.5-a",
        "a topic does not know its name",
        body("pyjms.messages.destinations:JmsTopic.topic_name", "return 'a topic'"),
    ),
    mutant(
        "4.4.2-a",
        "a session has one consumer",
        edit(
            _S + "_subscribe",
            "self.check_open()",
            "self.check_open()\n    if self._consumers: raise IllegalStateException('one consumer')",
        ),
    ),
    mutant(
        "4.4.2-a",
        "a session has one producer",
        edit(
            _S + "create_producer",
            "self.check_open()",
            "self.check_open()\n    if self._producers: raise IllegalStateException('one producer')",
        ),
    ),
    mutant(
        "4.4.2-b",
        "a producer needs a destination",
        edit(_S + "create_producer", "self.check_open()", "self.check_open()\n    address_of(destination)"),
    ),
    mutant(
        "5.7-f 6.9-f",
        "a sender and a publisher need a destination",
        edit(
            "pyjms.runtime.domains:JmsQueueSession.create_sender",
            "self.check_open()",
            "self.check_open()\n    queue.queue_name",
        ),
        edit(
            "pyjms.runtime.domains:JmsTopicSession.create_publisher",
            "self.check_open()",
            "self.check_open()\n    topic.topic_name",
        ),
    ),
    mutant(
        "4.4.2-c 5.7-c 6.9-c",
        "consumers lose their selector",
        edit(_S + "_subscribe", "destination, selector,", "destination, None,"),
    ),
    mutant(
        "4.5-a",
        "a consumer does not know its selector",
        edit(_CONSUMER + "message_selector", "return self._selector", "return ''"),
    ),
    mutant(
        _NO_DESTINATION,
        "None for a destination raises JMSException",
        edit(
            _ADDRESS_OF,
            "raise InvalidDestinationException(",
            "from pyjms.errors import JMSException\n    raise JMSException(",
        ),
        *(
            edit(
                where,
                "raise InvalidDestinationException(",
                "from pyjms.errors import JMSException\n        raise JMSException(",
            )
            for where in (
                _S + "create_browser",
                "pyjms.runtime.checks:_check_topic",
            )
        ),
        *(
            edit("pyjms.runtime.domains:" + where, "raise InvalidDestinationException(", "raise IllegalStateException(")
            for where in ("JmsQueueSession.create_receiver", "JmsTopicSession.create_subscriber")
        ),
        edit("pyjms.runtime.requestor:QueueRequestor.__init__", "address_of(queue)", "queue.queue_name"),
        edit("pyjms.runtime.requestor:TopicRequestor.__init__", "address_of(topic)", "topic.topic_name"),
        edit(
            "pyjms.runtime.producer:JmsMessageProducer._address_of",
            "raise InvalidDestinationException(",
            "raise JMSException(",
        ),
    ),
    # the other domain, and what needs a transaction
    *(
        mutant(id, f"{kind}.{method} is allowed", body(f"pyjms.runtime.domains:Jms{kind}.{method}", "return None"))
        for id, kind, method in (
            ("4.11-a", "QueueSession", "create_durable_subscriber"),
            ("4.11-b", "QueueSession", "create_temporary_topic"),
            ("4.11-c", "QueueSession", "create_topic"),
            ("4.11-d", "QueueSession", "unsubscribe"),
            ("4.11-e", "TopicSession", "create_browser"),
            ("4.11-f", "TopicSession", "create_queue"),
            ("4.11-g", "TopicSession", "create_temporary_queue"),
            ("4.11-h 8.2.4-f", "QueueConnection", "create_durable_connection_consumer"),
        )
    ),
    mutant(
        "4.4.7-d 4.4.7-e 7.3-b",
        "commit and rollback need no transaction",
        edit(_S + "_check_transaction", "self.check_open()", "self.check_open()\n    return"),
        edit(_VM + "_take_unit", 'raise CapabilityError("the session is not transacted")', "return None"),
    ),
    mutant(
        "4.4.11-c",
        "recover of a transacted session does nothing",
        edit(_S + "recover", 'raise IllegalStateException("a transacted session recovers by rollback()")', "return"),
    ),
    mutant(
        "4.4-b 5.6-a 6.8-a",
        "a session says that it is not transacted",
        edit(_S + "transacted", "return self._mode is", "return self._mode is None and"),
    ),
    mutant(
        "4.4-c 5.6-a 6.8-a 4.3.6-a",
        "a session does not know its acknowledge mode",
        edit(_S + "acknowledge_mode", "return self._mode", "return AcknowledgeMode.DUPS_OK_ACKNOWLEDGE"),
    ),
    # threads
    mutant(
        "4.4.6-a",
        "a session can be closed on one thread only",
        edit(_S + "close", "if self.gate", _NO_THREADS + "if self.gate"),
    ),
    mutant(
        "4.4.6-b",
        "a session has one listener",
        edit(
            _S + "listen",
            "self.check_open()",
            "self.check_open()\n    if self._dispatcher.listening: self._dispatcher.listening = {}",
        ),
    ),
    mutant(
        "4.4.6-c",
        "receive beside a listener raises KeyError",
        edit(_CONSUMER + "_check_can_receive", "raise IllegalStateException(", "raise KeyError("),
    ),
    mutant(
        "4.4.14-a",
        "each listener of a session has a thread",
        edit(
            "pyjms.runtime.dispatch:Dispatcher._work",
            "self._process(delivery, callback, consumer)",
            "__import__('threading').Thread(target=self._process, args=(delivery, callback, consumer), daemon=True).start()",
        ),
    ),
    # acknowledgement
    mutant("4.4-a", "a session keeps nothing that it consumed", edit(_S + "recover", "unacked.take()", "()")),
    mutant(
        "4.4.11-a 4.4-a",
        "recover does nothing",
        edit(_S + "recover", "self.provider_session.recover([*deliveries, *pending])", "pass"),
    ),
    mutant(
        "4.4.11-a",
        "recover begins with the last message",
        edit(_S + "recover", "unacked.take()", "unacked.take()[-1:]"),
    ),
    mutant(
        "4.4.11-b", "recovered messages are not marked", edit(_QUEUE + "deliver_single_message", "count > 1", "False")
    ),
    mutant(
        "4.4.11-d 4.4.7-a",
        "commit acknowledges nothing",
        edit(
            _S + "_commit", "self.provider_session.acknowledge(unsettled)", "self.provider_session.recover(unsettled)"
        ),
    ),
    mutant(
        "4.4.11-d 4.4.7-b",
        "rollback acknowledges",
        edit(
            _S + "_roll_back",
            "self._give_back_received(deliveries)",
            "self.provider_session.acknowledge(deliveries)\n        self.provider_session.commit()",
        ),
    ),
    mutant(
        "4.4.11-e 3.6-a",
        "acknowledge covers the last message only",
        edit(_S + "acknowledge", "deliveries = self.unacked.take()", "deliveries = self.unacked.take()[-1:]"),
    ),
    mutant(
        "3.6-a",
        "acknowledge raises in other modes",
        edit(_S + "acknowledge", "return\n", "raise IllegalStateException('not in this mode')\n"),
    ),
    mutant(
        "4.4.11-f",
        "AUTO_ACKNOWLEDGE acknowledges nothing",
        edit(
            _S + "_settle_taken",
            "self.provider_session.acknowledge(unsettled)",
            "if not self.settles_at_once: self.provider_session.acknowledge(unsettled)",
        ),
        edit("pyjms.runtime.dispatch:Dispatcher._settle", "session.provider_session.acknowledge(due)", "pass"),
    ),
    mutant(
        "4.4.11-g",
        "DUPS_OK_ACKNOWLEDGE acknowledges nothing",
        edit(_S + "_settle_lazy", "self._mode is AcknowledgeMode.DUPS_OK_ACKNOWLEDGE", "False"),
        value("pyjms.runtime.settling:DUPS_OK_BATCH", 10_000),
    ),
    mutant(
        "4.4.12-a 4.4.13-a 4.7-a",
        "an acknowledged message comes again",
        body(_VM + "acknowledge", "self.recover(deliveries)"),
    ),
    mutant(
        "4.4.13-a 4.7-b 4.7-a",
        "each message is stored twice",
        edit(_VM + "send", "self._route(", "for _ in (1, 2): self._route("),
        durable=True,
    ),
    # transactions
    mutant(
        "4.4.7-a",
        "a transaction sends at once",
        edit(_VM + "send", "self._open_unit() if self._transacted else None", "None"),
    ),
    mutant(
        "4.4.7-b",
        "rollback commits",
        edit(
            _VM + "rollback",
            "unit.rollback()",
            "unit.begin_commit(self._host.clock.time_ms()); self._host.finish_commit(unit)",
        ),
    ),
    mutant(
        "4.4.7-c",
        "a session has one transaction",
        edit(
            _S + "_check_transaction",
            "self.check_open()",
            "self.check_open()\n    self._id_prefix += '!'\n    if self._id_prefix.endswith('!!'): raise IllegalStateException('the transaction has ended')",
        ),
    ),
    # order
    mutant(
        "4.4.10.2-b",
        "a commit sends in reverse",
        edit(_QUEUE + "commit", "for entry in entries:", "for entry in reversed(list(entries)):"),
    ),
    mutant(
        "4.4.10.1-a 5.8-b 4.4.10.2-a",
        "every fourth message overtakes",
        edit(
            "pyjms_provider.core.host.virtual_host:VirtualHost.route",
            "reference = store.store(envelope, origin)",
            "reference = store.store(envelope, origin)\n            if not reference.id % 4: reference.priority = 9",
        ),
    ),
    mutant(
        "4.4.10.2-a",
        "persistent messages go first, and the last of them at their head",
        edit(
            "pyjms_provider.core.host.virtual_host:VirtualHost.route",
            "reference = store.store(envelope, origin)",
            "reference = store.store(envelope, origin)\n            reference.priority = min(9, max(0, reference.id % 10))",
        ),
    ),
    mutant(
        "4.4.9-a",
        "a topic has one subscriber",
        edit(
            "pyjms_provider.core.topic:Topic.add_subscription",
            "self._members.setdefault(",
            "self._members.clear()\n        self._members.setdefault(",
        ),
    ),
    mutant(
        "4.4.9-b",
        "the second receiver of a queue is refused",
        edit(
            _QUEUE + "add_consumer",
            "selector = consumer.selector",
            "selector = consumer.selector\n        if len(self.consumers): raise ClosedError('one receiver')",
        ),
    ),
    # receiving
    mutant(
        "4.5.1-a",
        "receive waits for 20 ms",
        edit(_CONSUMER + "receive", "if timeout else None", "if timeout else session.clock.monotonic_ms() + 20"),
    ),
    mutant(
        "4.5.1-b",
        "a timeout is in seconds",
        edit(_CONSUMER + "receive", "monotonic_ms() + timeout", "monotonic_ms() + timeout * 1000"),
    ),
    mutant(
        "4.5.1-b",
        "receive(0) returns at once",
        edit(_CONSUMER + "receive", "is_over = timeout < 0", "is_over = timeout <= 0"),
    ),
    mutant(
        "4.5.1-c",
        "receive_no_wait waits",
        edit(_CONSUMER + "receive_no_wait", "message = self._session.take(self)", "message = self.receive()"),
    ),
    mutant(
        "4.5.1-c",
        "receive_no_wait finds nothing",
        edit(_CONSUMER + "receive_no_wait", "message = self._session.take(self)", "message = None"),
    ),
    # listeners
    mutant("4.5.2-a", "a listener is not called", edit("pyjms.runtime.dispatch:_call", "callback(message)", "pass")),
    mutant(
        "4.5.2-b",
        "a listener reads as None",
        edit(_CONSUMER + "message_listener", "return self._listener", "return None"),
    ),
    mutant(
        "4.5.2-b",
        "a listener cannot be taken away",
        edit(
            _CONSUMER + "message_listener.fset",
            "self._session.listen(self, callback)",
            "if callback is not None: self._session.listen(self, callback)",
        ),
    ),
    mutant(
        "4.5.2-c",
        "a message whose listener throws is dropped",
        edit(
            "pyjms.runtime.dispatch:give_back_failed",
            "session.retry(delivery, reason)",
            "session.provider_session.acknowledge([delivery])",
        ),
    ),
    mutant(
        "4.5.2-d",
        "a listener that throws ends its thread",
        edit(
            "pyjms.runtime.dispatch:Dispatcher._redeliver",
            "self._give_back_failed(delivery, reason)",
            "raise SystemExit",
        ),
    ),
    mutant(
        "4.5.2-e 4.5.2-f",
        "a listener that throws ends the delivery",
        edit(
            "pyjms.runtime.dispatch:Dispatcher._settle",
            "if session.settles_by_itself:",
            "session.gate.is_open = False\n        if session.settles_by_itself:",
        ),
    ),
    mutant(
        "4.5.2-e",
        "a listener that throws recovers the session",
        edit(
            "pyjms.runtime.dispatch:Dispatcher._settle",
            "if session.settles_by_itself:",
            "if session._mode == 2: session.provider_session.recover(session.unacked.take())\n        if session.settles_by_itself:",
        ),
    ),
    mutant(
        "4.5.2-f",
        "a listener that throws rolls back",
        edit(
            "pyjms.runtime.dispatch:Dispatcher._settle",
            "if session.settles_by_itself:",
            "if not session.settles_by_itself: session._roll_back()\n        if session.settles_by_itself:",
        ),
    ),
    mutant(
        "4.5.2-h",
        "a message whose listener throws comes for ever",
        body("pyjms_provider.core.queue.dead_letters:DeadLetterPolicy.exceeded_redeliveries", "return False"),
        value("pyjms.runtime.dispatch:MAXIMUM_ATTEMPTS", 1_000_000),
    ),
    # restarts
    mutant(
        "4.7-b",
        "persistent messages are not kept",
        edit(
            "pyjms_provider.core.host.virtual_host:VirtualHost.route",
            "envelope.delivery_mode == _PERSISTENT",
            "envelope is None",
        ),
        durable=True,
    ),
    mutant(
        "4.10-a",
        "a restart forgets what was delivered",
        edit(
            "pyjms_provider.core.queue.recovery:restore_message",
            "entry.delivery_count = delivery_count",
            "entry.delivery_count = 0",
        ),
        durable=True,
    ),
    mutant(
        "4.10-b",
        "non-persistent messages come twice after a restart",
        edit(
            "pyjms_provider.core.host.virtual_host:VirtualHost.route",
            "envelope.delivery_mode == _PERSISTENT",
            "envelope is not None",
        ),
        edit(
            "pyjms_provider.core.queue.recovery:restore_message",
            "read = _reader_for(queue, reference)",
            "read = _reader_for(queue, reference)\n    from pyjms_provider.core.message.message_state import MessageState\n    if unit is None and not queue.state.entries(MessageState.NEW)[5:]: queue.place(queue.state.make(queue, reference))",
        ),
        durable=True,
    ),
)
