"""Management by messages: a queue ``$management`` that takes requests as JSON and answers where they say (Broker-J, "AMQP management").

Who asks is who sent the message: the broker knows the connection that each message came by, and nothing in a message can say
otherwise. A request whose connection has gone meanwhile is refused. Each is acknowledged before it is done, so that
nothing is done twice.
"""

from __future__ import annotations

import json
import logging
import uuid
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import Address, AddressKind, BodyKind, ConnectionId, Envelope, MessageId
from pyjms.spi.errors import AccessDeniedError, ClosedError, ProviderError
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.terminal import printable
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.core.queue.entry import QueueEntry
from pyjms_provider.management.desk import Caller
from pyjms_provider.management.errors import BadRequestError
from pyjms_provider.management.requests_by_message import MessageRequest
from pyjms_provider.management.rest.answers import error_data, status_of
from pyjms_provider.management.rest.requests import read_json
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.managed import ConfigurationChangeListener
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.protocols.stomp.server.hosts import Guard
from pyjms_provider.security.contracts import AccessPolicy, Operation, Principal, Target
from pyjms_provider.serving.embedded_host import EmbeddedHost
from pyjms_provider.serving.hosts import running_hosts

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.management.desk import Desk
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["MANAGEMENT", "STATUS", "WANTED", "ManagementQueues", "MessageService"]


MANAGEMENT: Final = "$management"
"""The queue, and the virtual host whose queue of that name is about the whole broker."""
STATUS: Final = "pyjms_status"
"""The property of an answer that has its status, as REST has it."""
_ADDRESS: Final = Address(AddressKind.QUEUE, MANAGEMENT)
_LONGEST: Final = 4 * 2**20
_ANSWER_LIVES_MS: Final = 60_000
_PAUSE_S: Final = 1.0
"""After a failure, which may be one of the store: it is not asked again as fast as it can refuse."""
_SHOWN: Final = 300
_log = logging.getLogger(__name__)


def _shown(text: object) -> str:
    """Return a text that a client chose as a line of the log has it: on one line, and not for ever."""
    return " ".join(printable(str(text)).split())[:_SHOWN]


class _Everything(AccessPolicy):
    """For who is in this process: they could do all of it by plain calls."""

    def check(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str = ""
    ) -> None:
        """Allow it."""


_IN_PROCESS: Final = Principal(name="(in this process)")
_EVERYTHING: Final = _Everything()


class MessageService:
    """Serves one virtual host's queue, on a thread of its own, until `close` or the host's end."""

    def __init__(self, desk: Desk, broker: EmbeddedBroker, scope: tuple[str, ...] = ()) -> None:
        """`broker`: the running virtual host; `scope`: its names, which names are relative to; none: the whole broker.

        Raises `ClosedError` when the host has ended.
        """
        self._desk = desk
        self._broker = broker
        self._scope = scope
        self._signal = Signal()
        self._closed = False
        self._connection = VmConnection(broker, self)
        self._session = self._connection.open_session(transacted=False)
        wanted = SubscribeRequest(address=_ADDRESS, selector=None, no_local=False, durable_name=None, priority=0)
        self._consumer = self._session.subscribe(wanted, self._signal.set)
        self._connection.start()
        self._thread = Thread(target=self._run, name=f"pyjms management {broker.name}", daemon=True)
        self._thread.start()

    def on_exception(self, error: ProviderError) -> None:
        """Hear that the host has ended."""
        self._closed = True
        self._signal.set()

    def close(self) -> None:
        """Take no more requests; one that is being done is finished. May be repeated."""
        self._closed = True
        self._signal.set()
        self._thread.join(10.0)

    def _run(self) -> None:
        try:
            while not self._closed:
                self._serve_next()
        except ClosedError:
            pass  # the host has ended
        finally:
            self._connection.close()

    def _serve_next(self) -> None:
        """Wait for a request, and serve it. Raises `ClosedError` when the host has ended; no other error ends the service."""
        try:
            delivery = self._consumer.poll_or_wait()
            if delivery is None:
                self._signal.wait(-1)
            else:
                self._serve(delivery)
        except ClosedError:
            raise
        except Exception:
            # What could not be acknowledged stays held: later, its sender would not count on it any more.
            _log.exception("PYJMS-MANAGE-4 a request to %s could not be taken, and is not done", self._broker.name)
            self._signal.wait(_PAUSE_S)

    def _serve(self, delivery: Delivery) -> None:
        assert isinstance(delivery.tag, QueueEntry), "what consumers get is in a queue"
        request = delivery.envelope
        self._session.acknowledge([delivery])
        try:
            caller, origin = self._caller(delivery.tag.reference.origin)
        except AccessDeniedError as error:
            _log.warning("PYJMS-MANAGE-1 a request to %s is refused: %s", self._broker.name, error.reason)
            return
        try:
            answer: dict[str, Any] = {"result": self._do(caller, request)}
            status = 200
        except ProviderError as error:
            answer, status = {"error": error_data(error)}, status_of(error)
        except Exception:
            _log.exception("PYJMS-MANAGE-2 a request to %s failed", self._broker.name)
            failure = ProviderError("the broker failed to do this; its log says why (PYJMS-MANAGE-2)")
            answer, status = {"error": error_data(failure)}, 500
        try:
            self._answer(caller, origin, request, {"status": status, **answer})
        except ProviderError as error:
            where, why = _shown(request.reply_to), _shown(error.reason)
            _log.warning("PYJMS-MANAGE-3 an answer to %s could not be sent: %s", where, why)
        except Exception:
            _log.exception("PYJMS-MANAGE-3 an answer to %s could not be sent", _shown(request.reply_to))

    def _caller(self, origin: ConnectionId | None) -> tuple[Caller, ConnectionId]:
        """Return who sent a message, and by which connection. Raises `AccessDeniedError` when that cannot be told any more."""
        client = None if origin is None else self._broker.clients().get(origin)
        if origin is None or client is None:
            raise AccessDeniedError("its sender's connection has closed, so nobody knows who asks")
        if client.principal is None and client.protocol == "vm":
            return Caller(principal=_IN_PROCESS, access=_EVERYTHING), origin
        if client.principal is None or client.access is None:
            raise AccessDeniedError("its sender is not known")
        caller = Caller(principal=client.principal, access=client.access, peer=client.address, port=client.port)
        return caller, origin

    def _do(self, caller: Caller, request: Envelope) -> Any:
        body = request.body
        if request.body_kind is not BodyKind.TEXT or not isinstance(body, str):
            raise BadRequestError("a request is a TextMessage with a JSON object")
        if len(body) > _LONGEST:
            raise BadRequestError(f"a request has at most {_LONGEST} characters")
        text = body.encode("utf-8", "surrogatepass")  # half of a pair is refused where bytes are read that are no UTF-8
        return MessageRequest(self._desk, caller, self._scope, read_json(text)).run()

    def _answer(self, caller: Caller, origin: ConnectionId, request: Envelope, answer: dict[str, Any]) -> None:
        """Send an answer, where the sender of the request might send it by the same connection. Raises `ProviderError`.

        It waits for no room in a full queue: everybody's requests would wait with it.
        """
        where = request.reply_to
        if where is None or where == _ADDRESS:
            return
        now_ms = self._broker.clock.time_ms()
        envelope = Envelope(
            destination=where,
            message_id=MessageId(f"ID:{uuid.uuid4()}"),
            timestamp_ms=now_ms,
            expiration_ms=now_ms + _ANSWER_LIVES_MS,
            delivery_mode=1,
            priority=4,
            correlation_id=request.correlation_id if request.correlation_id is not None else request.message_id,
            reply_to=None,
            jms_type=None,
            properties={STATUS: answer["status"]},
            body_kind=BodyKind.TEXT,
            body=json.dumps(answer),
        )
        Guard(caller.principal, EmbeddedHost(self._broker, caller.access), origin).send(envelope)
        self._broker.virtual_host.route(envelope, self._connection.connection_id, None)


WANTED: Final = "pyjms.management.queue"
"""The context variable that is ``true`` where a virtual host is to have a management queue."""


class ManagementQueues(ConfigurationChangeListener):
    """Follows the virtual hosts as they come and go. A service ends by itself with its host."""

    def __init__(self, desk: Desk, synthetic: EmbeddedBroker) -> None:
        """`synthetic`: the running host ``$management``, whose queue is about the whole broker."""
        self._desk = desk
        self._synthetic = synthetic
        self._lock = Lock()
        self._services: dict[UUID, MessageService] = {}
        self._whole = MessageService(desk, synthetic)
        desk.system.add_listener(self, below=True)
        for host in running_hosts(desk.system):
            self._serve(host)

    def state_changed(self, managed: ManagedObject, old: State, new: State) -> None:
        """Serve a virtual host that begins to run, and forget one that runs no more: its service ends by itself."""
        if not isinstance(managed, VirtualHost):
            return
        if new is State.ACTIVE:
            self._serve(managed)
        else:
            with self._lock:
                self._services.pop(managed.id, None)

    def _serve(self, host: VirtualHost) -> None:
        if host.variable(WANTED) != "true":
            return
        try:
            service = MessageService(self._desk, host.embedded, host.names)
        except ProviderError:
            return  # it has stopped meanwhile
        with self._lock:
            before = self._services.pop(host.id, None)
            self._services[host.id] = service
        if before is not None:
            before.close()

    def close(self) -> None:
        """Take no more requests, and end the host ``$management``."""
        with self._lock:
            services = [*self._services.values(), self._whole]
            self._services = {}
        for service in services:
            service.close()
        self._synthetic.stop()
