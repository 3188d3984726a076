"""Connections: making, client identifiers, start and stop, metadata, exception listeners."""

from __future__ import annotations

from pyjms.runtime.machines import Event, State
from tests.tck.broken.mutation import body, edit, entry, mutant, value

__all__ = ["MUTANTS"]

_C = "pyjms.runtime.connection:JmsConnection."
_F = "pyjms.runtime.factory:ConnectionFactory."
_TABLE = "pyjms.runtime.machines:TRANSITIONS"
_META = "pyjms.runtime.connection:JmsConnectionMetaData."
_SESSION = "pyjms.runtime.session:JmsSession."
_STARTED_AT_ONCE = edit(
    _C + "__init__",
    "self.temporaries = Temporaries(self._provider)",
    "self.temporaries = Temporaries(self._provider)\n    self.start()\n    self._used = False",
)
_NO_THREADS = "if __import__('threading').current_thread() is not __import__('threading').main_thread(): raise IllegalStateException('not on this thread')\n    "

MUTANTS = (
    mutant("4.3.1-a 4.3.1-b 5.5-a 5.5-b 6.7-a 6.7-b", "new connections are started", _STARTED_AT_ONCE),
    mutant(
        "4.3.1-b 5.5-b 6.7-b",
        "a user name is refused",
        edit(
            _F + "_connect",
            "request = ConnectRequest(",
            "if user_name is not None: raise TypeError('no users')\n    request = ConnectRequest(",
        ),
    ),
    mutant(
        "4.3.1-a 5.5-a 6.7-a",
        "a factory makes one connection and returns it again",
        edit(
            _F + "_connect",
            "return kind(provider",
            "if getattr(self, '_one', None) is None: self._one = kind(provider, request, self._trusted)\n    return self._one\n    return kind(provider",
        ),
    ),
    mutant(
        "4.3.2-a",
        "the client identifier reads as None",
        edit(_C + "client_id", "return self._client_id", "return None"),
    ),
    mutant(
        "4.3.2-b",
        "a client identifier can be changed",
        edit(_C + "client_id.fset", "if self._client_id is not None:", "if False:"),
        edit(_C + "client_id.fset", "self._provider.set_client_id(client_id)", "pass"),
    ),
    mutant(
        "4.3.2-c",
        "the client identifier can be set after use",
        edit(_C + "client_id.fset", "if self._used:", "if False:"),
    ),
    mutant(
        "4.3.2-d 7.3-d",
        "two connections may have one client identifier",
        body("pyjms_provider.core.host.virtual_host:VirtualHost.take_client_id", "self._client_ids[client_id] = owner"),
    ),
    mutant(
        "4.3.2-d 7.3-d",
        "a client identifier in use raises JMSException",
        value("pyjms.spi.errors:DuplicateClientIdError.jms_name", "JMSException"),
    ),
    mutant(
        "4.3.2-e",
        "durable subscriptions of one name are shared",
        edit(
            "pyjms_provider.core.host.virtual_host:HostSubscriptions.subscribe",
            'SubscriptionKey(client_id or "", request.durable_name)',
            "SubscriptionKey('all', request.durable_name)",
        ),
    ),
    mutant("4.3.3-a 2.6.1-a", "start delivers nothing", edit(_C + "start", "session.begin_delivery()", "pass")),
    mutant("4.3.3-a 4.3.4-a", "a second start is an error", entry(_TABLE, (State.STARTED, Event.START))),
    mutant(
        "4.3.3-b",
        "sessions made after the start get no messages",
        edit(_C + "open_session", "session.begin_delivery()", "pass"),
    ),
    mutant(
        "4.3.3-c 4.3.1-a",
        "messages are delivered before the start",
        edit("pyjms.runtime.waiting:DeliveryGate.__init__", "self.is_open = False", "self.is_open = True"),
        edit("pyjms_provider.clients.vm:VmConnection.__init__", "self._started = False", "self._started = True"),
    ),
    mutant(
        "4.3.3-d",
        "a stopped connection does not send",
        edit(
            "pyjms.runtime.producer:JmsMessageProducer._send",
            "if session.refuses_sends:",
            "if not session.connection.is_started:",
        ),
    ),
    mutant("4.3.4-a", "a stop of a stopped connection is an error", entry(_TABLE, (State.STOPPED, Event.STOP))),
    mutant("4.3.4-b", "stop is ignored", body(_C + "stop", "return")),
    mutant("4.3.4-c", "stop does not wait for listeners", body(_SESSION + "wait_for_listeners", "return")),
    mutant(
        "4.3.4-d",
        "stop ends sending",
        edit(
            "pyjms.runtime.producer:JmsMessageProducer._send",
            "if session.refuses_sends:",
            "if not session.connection.is_started:",
        ),
    ),
    mutant(
        "4.3.4-e",
        "a timeout does not go on while the connection is stopped",
        edit(
            "pyjms.runtime.consumer:JmsMessageConsumer._wait",
            "if not self.inbox.wait(until_ms):\n                return None",
            "if not self.inbox.wait(until_ms):\n                if connection.is_started:\n                    return None\n                until_ms = None",
        ),
    ),
    mutant(
        "4.3.6-a 4.4-b 4.4-c",
        "a transacted session is not transacted",
        edit("pyjms.runtime.checks:session_mode", "if transacted:", "if False:"),
    ),
    mutant(
        "4.3.6-a 4.4-c",
        "every session is AUTO_ACKNOWLEDGE",
        edit("pyjms.runtime.checks:_mode", "AcknowledgeMode(given)", "AcknowledgeMode.AUTO_ACKNOWLEDGE"),
    ),
    mutant("4.3.7-a", "the minor JMS version is 2", edit(_META + "jms_minor_version", "return 0", "return 2")),
    mutant(
        "4.3.7-b",
        "the major version of the provider is wrong",
        edit(_META + "provider_major_version", "return self._major", "return self._major + 7"),
    ),
    mutant(
        "4.3.7-b", "the provider has no name", edit(_META + "jms_provider_name", "return self._info.name", "return ''")
    ),
    mutant(
        "4.3.8-a",
        "the exception listener reads as None",
        edit(_C + "exception_listener", "return self._exception_listener", "return None"),
    ),
    mutant(
        "4.3.8-b",
        "the exception listener hears nothing",
        edit(_C + "_report", "exception_callback(listener)(to_jms(error))", "pass"),
    ),
    mutant(
        "4.3.8-c",
        "there is an exception listener at first",
        edit(
            _C + "__init__",
            "self._exception_listener: ExceptionListenerLike | None = None",
            "self._exception_listener = print",
        ),
    ),
    mutant(
        "4.3.8-d",
        "what a call throws goes to the exception listener too",
        edit(
            _SESSION + "_check_transaction",
            "self.check_open()",
            "self.check_open()\n    self.connection.report(ProviderError('a call failed'))",
        ),
        edit(
            _SESSION + "create_consumer",
            "return",
            "if destination is None: self.connection.report(ProviderError('a call failed'))\n    return",
        ),
        edit(
            _SESSION + "_subscribe",
            "self.check_open()",
            "self.check_open()\n    if selector: self.connection.report(ProviderError('a call failed'))",
        ),
    ),
    mutant(
        "4.3.8-e",
        "each problem has a thread of its own",
        edit(
            _C + "on_exception",
            "self._events.call(lambda: self._report(error))",
            "for _ in (1, 2): __import__('threading').Thread(target=self._report, args=(error,), daemon=True).start()",
        ),
    ),
    mutant(
        "4.2.1-a",
        "destinations belong to one thread",
        edit(
            "pyjms.messages.destinations:address_of",
            "if destination.__class__ in",
            _NO_THREADS.replace("IllegalStateException", "TypeError") + "if destination.__class__ in",
        ),
    ),
    mutant(
        "4.2.2-a",
        "factories belong to one thread",
        edit(
            _F + "_connect",
            "with mapped_errors:",
            "if __import__('threading').current_thread() is not __import__('threading').main_thread(): raise TypeError('not on this thread')\n    with mapped_errors:",
        ),
    ),
    mutant(
        "4.3-a",
        "connections belong to one thread",
        edit(_C + "_use", "self._check_open()", _NO_THREADS + "self._check_open()"),
    ),
)
