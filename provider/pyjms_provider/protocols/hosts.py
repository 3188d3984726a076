"""The broker as the server sees it: its virtual hosts, and the checks of a connection's rights."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope, fact
from pyjms.spi.errors import DestinationError
from pyjms.spi.provider import ConnectionEvents, ProviderConnection, ProviderConsumer, ProviderSession
from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.security.contracts import AccessPolicy, Operation, Principal, Target, TargetKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyjms.spi.delivery import Delivery
    from pyjms.spi.errors import ProviderError
    from pyjms.spi.provider import SubscribeRequest
    from pyjms_provider.core.queue.consumer import DirectConsumer

# Bounded, as a client chooses the names.
_TARGETS_MAX: Final = 256
_LONGEST_NAME: Final = 255
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class ServedHost(Protocol):
    """One virtual host. All calls may come from any thread."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def access(self) -> AccessPolicy:
        """The access rules of the host."""
        ...

    @property
    def writes(self) -> bool:
        """Whether settling and committing may wait for a disk."""
        ...

    @property
    def asks_others(self) -> bool:
        """Whether most calls may wait for another process: then none of them is made on the thread of all connections."""
        ...

    @property
    def persists_all(self) -> bool:
        """Whether NON_PERSISTENT messages are written, too."""
        ...

    @property
    def creates_on_demand(self) -> bool:
        """Whether clients create queues by using them."""
        ...

    def waits_briefly(self, envelope: Envelope | None) -> bool:
        """Return whether a send of `envelope`, or settling and committing (None), waits for a local disk at most. Never waits."""
        ...

    def may_wait_for_room(self, address: Address) -> bool:
        """Return whether a send there may have to wait for room, now or in a moment. Never waits."""
        ...

    def send_together(self, sendings: Sequence[Sending]) -> Sequence[ProviderError | None]:
        """Send messages of several sessions, and return the error of each, or None. Waits for the disk, once if possible; not for room."""
        ...

    def send_at_once(self, session: ProviderSession, envelope: Envelope) -> None:
        """Send a message by `session`, one of this host's, without waiting for room; it may wait for the disk. Raises `QueueFullError` if
        there is no room.
        """
        ...

    @property
    def has_remote(self) -> bool:
        """Whether other processes have some of its destinations, so that `begin_send` and `begin_acknowledge` may begin something."""
        ...

    def begin_send(
        self, session: ProviderSession, envelope: Envelope, done: Callable[[BaseException | None], None]
    ) -> bool:
        """Have another process send a message of `session`, one of this host's, as `ProviderSession.send_async` does. Never waits.

        `done` may be told `DeclinedJobError`: the message was not sent, and `ProviderSession.send` can do it. Returns False if this process sends it, or the call would wait: then nothing has happened, and `ProviderSession.send` can do it.
        """
        ...

    def begin_acknowledge(
        self, session: ProviderSession, deliveries: Sequence[Delivery], done: Callable[[BaseException | None], None]
    ) -> bool:
        """Have another process settle messages, in the same way, as `ProviderSession.acknowledge` does; `done` may be told its errors."""
        ...

    def subscribe(
        self,
        session: ProviderSession,
        requests: Sequence[SubscribeRequest],
        on_ready: Callable[[], None],
        client_id: str | None = None,
    ) -> ProviderConsumer:
        """Return one consumer of `session`, one of this host's, for all `requests`; it takes their messages in turn. Raises as
        `ProviderSession.subscribe` does.

        `client_id`: the client whose subscriptions are meant; None: the connection's; empty: those of no client.
        """
        ...

    def unsubscribe(self, session: ProviderSession, name: str, client_id: str) -> None:
        """Delete a durable subscription of a client, empty: of none. Raises as `ProviderSession.unsubscribe` does."""
        ...

    def connect(self, events: ConnectionEvents, *, principal: Principal, address: str) -> ProviderConnection:
        """Return a new connection to it, delivery stopped; `principal` and `address` identify the client.

        Raises `ResourceError`, `ClosedError`.
        """
        ...

    def hand_over(self, consumer: ProviderConsumer, taker: DirectConsumer) -> None:
        """Have messages for `consumer`, one of this host's, delivered directly to `taker` when they arrive, if it can take them."""
        ...

    def has(self, address: Address) -> bool:
        """Return whether the destination exists. Never waits on an event loop; elsewhere it may wait for another broker. Raises `ResourceError`."""
        ...

    def origin_of(self, envelope: Envelope) -> Address | None:
        """Return the destination to which a dead letter would be returned; None: the message is not a dead letter. Never waits."""
        ...

    def topic_of_subscription(self, client_id: str, name: str) -> Address | None:
        """Return the topic of a durable subscription of a client, empty: of none; None: there is none. May wait where the host `writes`. Raises
        `ResourceError`.
        """
        ...

    def owner_of(self, address: Address) -> ConnectionId | str:
        """Return the connection that made a temporary destination; "": unknown. Never waits."""
        ...


@fact
class Sending:
    """One message that is sent outside of a transaction."""

    session: ProviderSession
    envelope: Envelope
    guard: Guard


class HostDirectory(Protocol):
    """Finds virtual hosts by name."""

    def find(self, name: str) -> ServedHost | None:
        """Return the virtual host `name`, "" being the default one; None: none of that name runs. Any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Guard:
    """The rights of one connection's user at its virtual host. Each check raises `AccessDeniedError`."""

    principal: Principal
    host: ServedHost
    connection_id: ConnectionId
    _targets: dict[Address, Target] = field(default_factory=dict, compare=False, repr=False)
    _allowed: list[tuple[Address, object] | None] = field(default_factory=lambda: [None], compare=False, repr=False)
    """The last address to which a send was allowed, and the epoch of the rules then; None: unknown."""

    def enter(self) -> None:
        """Check that the user may connect."""
        self._check(Operation.CONNECT, Target(kind=TargetKind.VIRTUAL_HOST, name=self.host.name))

    def observe(self) -> None:
        """Check that the user may see all that the virtual host has."""
        self._check(Operation.OBSERVE, Target(kind=TargetKind.VIRTUAL_HOST, name=self.host.name))

    def send(self, envelope: Envelope) -> None:
        """Check that the user may send a message, and create its destination if needed."""
        address = envelope.destination
        origin = self.host.origin_of(envelope)
        # An operator may return a dead letter to the destination that it names, so its sender needs the right to send there.
        if origin is not None and origin != address:
            self._use(Operation.WRITE, origin)
        epoch = self.host.access.epoch  # before the check, so that a result by older rules is known as such
        allowed = self._allowed[0]
        # By identity of the address and of the epoch of the rules: any change of the rules makes a new epoch.
        if allowed is not None and allowed[0] is address and allowed[1] is epoch and self.host.has(address):
            return
        self._use(Operation.WRITE, address)
        self._allowed[0] = None if epoch is None else (address, epoch)

    def write(self, address: Address) -> None:
        """Check that the user may send there, before there is a message."""
        self._use(Operation.WRITE, address)

    def read(self, address: Address) -> None:
        """Check that the user may consume there. The virtual host itself checks temporary destinations."""
        if not address.temporary:
            self._use(Operation.READ, address)

    def browse(self, address: Address) -> None:
        """Check that the user may browse it."""
        self._use(Operation.BROWSE, address)

    def look(self, address: Address) -> None:
        """Check that the user may know whether a destination exists."""
        self._check(Operation.BROWSE, self._targets.get(address) or self._target_of(address))

    def create(self, address: Address) -> None:
        """Check that the user may create a destination."""
        self._check(Operation.CREATE, Target.of(address, self.host.name))

    def subscribe(self, client_id: str, name: str) -> None:
        """Check that the user may make a durable or shared subscription, or end it; `client_id` "": its consumers have none."""
        self._check(
            Operation.CREATE,
            Target(
                kind=TargetKind.SUBSCRIPTION,
                name=str(SubscriptionKey(client_id, name)),
                virtual_host=self.host.name,
                owner=self.principal.name,
            ),
        )

    def _use(self, operation: Operation, address: Address) -> None:
        target = self._targets.get(address) or self._target_of(address)
        if address.temporary:
            owner = self.host.owner_of(address)
            # The target may be remembered from before the destination was made, when it had no owner.
            if target.owner != owner:
                target = self._targets[address] = replace(target, owner=owner)
        elif not self.host.has(address):
            # Sending or subscribing creates a missing queue or topic, which needs a right of its own.
            if address.kind is AddressKind.QUEUE and not self.host.creates_on_demand:
                raise DestinationError(f"there is no {address}, and this virtual host creates none on demand")
            _check_name(address)
            self._check(Operation.CREATE, target)
        self._check(operation, target)

    def _target_of(self, address: Address) -> Target:
        target = Target.of(address, self.host.name)
        if len(self._targets) >= _TARGETS_MAX:
            self._targets.clear()
        self._targets[address] = target
        return target

    def _check(self, operation: Operation, target: Target) -> None:
        self.host.access.check(self.principal, operation, target, self.connection_id)


def _check_name(address: Address) -> None:
    """Refuse a name for a new destination that operators could not write, nor read safely. Raises `DestinationError`."""
    if len(address.name) > _LONGEST_NAME or _CONTROL.search(address.name):
        raise DestinationError(
            f"the name of a new destination has at most {_LONGEST_NAME} characters, and no line break, tab or other control "
            f"character; this one is {address.name[:40]!a}"
        )
