"""Management by messages: a queue ``$management`` that takes requests and sends answers to their reply addresses (Broker-J, "AMQP management").

A request is JSON, or one of the OASIS working draft "AMQP Management Version 1.0", which has its operation and type in application properties.

The caller is the user who sent the message: the broker knows the connection of each message, and nothing in a message can claim
otherwise. A request whose connection is closed by then is refused. Each is acknowledged before it is executed, so that
nothing is done twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

from pyjms.spi.envelope import Address, AddressKind, BodyKind, ConnectionId, Envelope
from pyjms.spi.errors import AccessDeniedError, ProviderError
from pyjms.spi.receivers import MessageReceiver, PushedMessage
from pyjms.spi.terminal import printable
from pyjms_provider.management.describing import ListRequest, describe_model
from pyjms_provider.management.entities import EntityRequest
from pyjms_provider.management.errors import BadRequestError
from pyjms_provider.management.rest.answers import error_data, status_of
from pyjms_provider.management.scope import Scope
from pyjms_provider.management.service import Caller
from pyjms_provider.model.managed import ConfigurationChangeListener, State
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.protocols.hosts import Guard
from pyjms_provider.receivers import Receivers
from pyjms_provider.security.access import Everything
from pyjms_provider.security.contracts import Principal
from pyjms_provider.serving.entity_messages import (
    Answer,
    asks_for_entities,
    entity_answer,
    entity_failure,
    read_body,
    read_text,
    write_answer,
)
from pyjms_provider.serving.hosts import EmbeddedHost, running_hosts

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.management.service import ManagementService
    from pyjms_provider.model.managed import ManagedObject

MANAGEMENT: Final = "$management"
"""The queue, and the virtual host whose queue of that name manages the whole broker."""
STATUS: Final = "pyjms_status"
"""The property of an answer that holds its status, with the codes of REST."""
_ADDRESS: Final = Address(AddressKind.QUEUE, MANAGEMENT)
_ANSWER_LIVES_MS: Final = 60_000
_SHOWN: Final = 300
_log = logging.getLogger(__name__)


def _shown(text: object) -> str:
    """Return a text chosen by a client for a line of the log: on one line, and cut."""
    return " ".join(printable(str(text)).split())[:_SHOWN]


_IN_PROCESS: Final = Principal(name="(in this process)")
_EVERYTHING: Final = Everything()


class MessageService(MessageReceiver):
    """Serves one virtual host's queue, as a receiver of it, until `end` or the host's end."""

    def __init__(self, management: ManagementService, broker: EmbeddedBroker, scope: tuple[str, ...] = ()) -> None:
        """`broker`: the running virtual host; `scope`: its names, to which names are relative; empty: the whole broker.

        Raises `ClosedError` when the host has ended.
        """
        self._management = management
        self._broker = broker
        self._scope = scope
        self._receivers = Receivers(broker)
        self._receivers.attach(f"queue://{MANAGEMENT}", self, name="management")

    def end(self) -> None:
        """Accept no more requests; one in progress is completed. May be repeated."""
        self._receivers.close()

    def handle(self, message: PushedMessage) -> bool:
        """Execute a request, acknowledged before: after a failure in between, a change is lost and its sender may repeat it, but is never made twice."""
        try:
            message.acknowledge()
        except ProviderError:
            # A request without an acknowledgement stays held: if it were done later, its sender would no longer expect it.
            _log.exception("PYJMS-MANAGE-4 a request to %s could not be taken, and is not done", self._broker.name)
        else:
            self._serve(message)
        return False

    def _serve(self, message: PushedMessage) -> None:
        request = message.envelope
        try:
            caller, origin = self._caller(message.origin)
        except AccessDeniedError as error:
            _log.warning("PYJMS-MANAGE-1 a request to %s is refused: %s", self._broker.name, error.reason)
            return
        answer = self._done(caller, request)
        try:
            self._answer(caller, origin, request, answer)
        except ProviderError as error:
            where, why = _shown(request.reply_to), _shown(error.reason)
            _log.warning("PYJMS-MANAGE-3 an answer to %s could not be sent: %s", where, why)
        except Exception:
            _log.exception("PYJMS-MANAGE-3 an answer to %s could not be sent", _shown(request.reply_to))

    def _caller(self, origin: ConnectionId | None) -> tuple[Caller, ConnectionId]:
        """Return the sender of a message, and its connection. Raises `AccessDeniedError` when that is no longer known."""
        # The broker itself knows the connection of a message: nothing in the message is trusted.
        client = None if origin is None else self._broker.clients().get(origin)
        if origin is None or client is None:
            raise AccessDeniedError("its sender's connection has closed, so nobody knows who asks")
        # A client in this process could make every change by plain calls, so no log-in is required.
        if client.principal is None and client.protocol == "vm":
            return Caller(principal=_IN_PROCESS, access=_EVERYTHING), origin
        if client.principal is None or client.access is None:
            raise AccessDeniedError("its sender is not known")
        caller = Caller(principal=client.principal, access=client.access, peer=client.address, port=client.port)
        return caller, origin

    def _done(self, caller: Caller, request: Envelope) -> Answer:
        """Execute a request, and return its answer, also where it fails."""
        scope, is_internal = Scope(self._management, caller, self._scope), False
        failure: ProviderError
        try:
            if asks_for_entities(request):
                return entity_answer(EntityRequest(scope, request.properties, read_body(request)).run())
            return _json_answer(200, {"result": MessageRequest.read(scope, request).run()})
        except ProviderError as error:
            failure = error
        except Exception:
            _log.exception("PYJMS-MANAGE-2 a request to %s failed", self._broker.name)
            failure = ProviderError("the broker failed to do this; its log says why (PYJMS-MANAGE-2)")
            is_internal = True
        if asks_for_entities(request):
            return entity_failure(failure, is_internal=is_internal)
        return _json_answer(500 if is_internal else status_of(failure), {"error": error_data(failure)})

    def _answer(self, caller: Caller, origin: ConnectionId, request: Envelope, answer: Answer) -> None:
        """Send an answer, with the rights of the request's sender and connection. Raises `ProviderError`.

        It does not wait for capacity in a full queue: all other requests would wait with it.
        """
        where = request.reply_to
        # An answer to this queue itself would be taken for a request, and be answered again, for ever.
        if where is None or where == _ADDRESS:
            return
        # An answer lives for a minute: the answers to a sender that is gone must not stay in a queue for ever.
        now_ms = self._broker.clock.time_ms()
        envelope = write_answer(request, where, answer, now_ms=now_ms, lives_ms=_ANSWER_LIVES_MS)
        # With the rights of the sender: a request must not make the broker write to a reply address where its sender may not.
        Guard(caller.principal, EmbeddedHost(self._broker, caller.access), origin).send(envelope)
        self._broker.virtual_host.route(envelope, self._receivers.connection_id, None)


def _json_answer(status: int, answer: Mapping[str, Any]) -> Answer:
    return Answer({STATUS: status}, {"status": status, **answer})


WANTED: Final = "pyjms.management.queue"
"""The context variable that is ``true`` where a virtual host has a management queue."""


class ManagementQueues(ConfigurationChangeListener):
    """Follows the virtual hosts that start and stop. A service ends by itself with its host."""

    def __init__(self, management: ManagementService, synthetic: EmbeddedBroker) -> None:
        """`synthetic`: the running host ``$management``, whose queue manages the whole broker."""
        self._management = management
        self._synthetic = synthetic
        self._lock = Lock()
        self._services: dict[UUID, MessageService] = {}
        self._whole = MessageService(management, synthetic)
        management.system.add_listener(self, below=True)
        # After the listener is added: a host that starts in between is served.
        for host in running_hosts(management.system):
            self._serve(host)

    def state_changed(self, managed: ManagedObject, old: State, new: State) -> None:
        """Serve a virtual host that begins to run, and forget one that has stopped: its service ends by itself."""
        if not isinstance(managed, VirtualHost):
            return
        if new is State.ACTIVE:
            self._serve(managed)
        else:
            with self._lock:
                self._services.pop(managed.id, None)

    def _serve(self, host: VirtualHost) -> None:
        # A shard has none: its clients are members, whose rights are no user's. The clustered host has one for the clients of this member.
        if host.variable(WANTED) != "true" or host.shard is not None:
            return
        try:
            service = MessageService(self._management, host.embedded, host.names)
        except ProviderError:
            return  # it has stopped meanwhile
        with self._lock:
            before = self._services.pop(host.id, None)
            self._services[host.id] = service
        # Without the lock: the service may be in the middle of a request, which is waited for.
        if before is not None:
            before.end()

    def close(self) -> None:
        """Accept no more requests, and end the host ``$management``."""
        with self._lock:
            services = [*self._services.values(), self._whole]
            self._services = {}
        for service in services:
            service.end()
        self._synthetic.stop()


_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "action": (str, "a text"),
    "category": (str, "a text"),
    "names": (list, "a list of texts"),
    "id": (str, "a UUID"),
    "attributes": (dict, "an object"),
    "operation": (str, "a text"),
    "arguments": (dict, "an object"),
    "fields": (list, "a list of texts"),
    "actual": (bool, "true or false"),
    "force": (bool, "true or false"),
    "filter": (str, "a text"),
    "sort": (list, "a list of texts"),
    "offset": (int, "a number"),
    "limit": (int, "a number"),
}


class MessageRequest:
    """One request. All calls raise the errors of the management service, and `BadRequestError`."""

    def __init__(self, scope: Scope, data: Any) -> None:
        self._management = scope.management
        self._caller = scope.caller
        self._scope = scope
        self._data = _checked(data)

    @classmethod
    def read(cls, scope: Scope, request: Envelope) -> Self:
        """Return the request that a message has."""
        body = request.body
        if request.body_kind is not BodyKind.TEXT or not isinstance(body, str):
            raise BadRequestError("a request is a TextMessage with a JSON object")
        return cls(scope, read_text(body))

    def run(self) -> Any:
        """Execute the request, and return the result as JSON."""
        action = str(self._data.get("action", ""))
        if action not in ACTIONS:
            raise BadRequestError(f"there is no action {action[:40]!r}; there are: {', '.join(ACTIONS)}")
        return ACTIONS[action](self)

    def discover(self) -> Any:
        """Return the available categories, as data."""
        model = describe_model()
        model["categories"] = [each for each in model["categories"] if self._scope.has(each["category"])]
        return model

    def list(self) -> Any:
        """Return a page of objects."""
        data = self._data
        fields = data.get("fields")
        wanted = ListRequest(
            fields=None if fields is None else tuple(fields),
            actual=data.get("actual", False),
            condition=data.get("filter"),
            order=tuple(data.get("sort", ())),
            offset=data.get("offset", 0),
            limit=data.get("limit", 100),
        )
        page = self._management.list(self._caller, self._category(), self._names(), wanted)
        return {"items": list(page.items), "total": page.total, "offset": page.offset}

    def get(self) -> Any:
        """Return one object."""
        return self._management.describe(
            self._object(), self._data.get("fields"), actual=self._data.get("actual", False)
        )

    def create(self) -> Any:
        """Create an object; the names are those of its parent."""
        attributes = self._data.get("attributes", {})
        return self._management.describe(
            self._management.create(self._caller, self._category(), self._names(), attributes)
        )

    def change(self) -> Any:
        """Change attributes of an object."""
        managed = self._object()
        attributes, force = self._data.get("attributes", {}), self._data.get("force", False)
        self._management.change(self._caller, managed, attributes, force=force)
        return self._management.describe(managed)

    def delete(self) -> Any:
        """Delete an object."""
        self._management.delete(self._caller, self._object())

    def invoke(self) -> Any:
        """Run an operation of an object."""
        name, arguments = self._data.get("operation", ""), self._data.get("arguments", {})
        return self._management.invoke(self._caller, self._object(), name, arguments)

    def _category(self) -> str:
        category = self._data.get("category")
        if category is None:
            raise BadRequestError("name the category that it is about")
        self._scope.check(category)
        return str(category)

    def _names(self) -> tuple[str, ...]:
        return (*self._scope.names, *self._data.get("names", ()))

    def _object(self) -> ManagedObject:
        category, wanted = self._category(), self._data.get("id")
        if wanted is None:
            return self._scope.find(category, self._data.get("names", ()))
        try:
            object_id = UUID(wanted)
        except ValueError:
            raise BadRequestError("id is no UUID") from None
        return self._scope.find_by_id(category, object_id)


ACTIONS: Final[Mapping[str, Callable[[MessageRequest], Any]]] = {
    "discover": MessageRequest.discover,
    "list": MessageRequest.list,
    "get": MessageRequest.get,
    "create": MessageRequest.create,
    "change": MessageRequest.change,
    "delete": MessageRequest.delete,
    "invoke": MessageRequest.invoke,
}
"""The supported requests."""


def _checked(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise BadRequestError("the body is a JSON object: {…}")
    for name, value in data.items():
        kind, text = _TYPES.get(name, (None, ""))
        if kind is None:
            raise BadRequestError(f"there is no word {name[:40]!r} here; there are: {', '.join(_TYPES)}")
        # A bool is an int in Python: true is no number here.
        is_right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if is_right and kind is list:
            is_right = all(isinstance(each, str) for each in value)
        if not is_right:
            raise BadRequestError(f"{name} is {text}")
    return data
