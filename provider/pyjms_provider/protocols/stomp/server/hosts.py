"""What the server needs of the broker: its virtual hosts, as far as a connection sees them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.spi.envelope import Address, ConnectionId, Envelope, fact
from pyjms.spi.errors import DestinationError
from pyjms.spi.provider import ConnectionEvents, ProviderConnection, ProviderConsumer, ProviderSession
from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.security.contracts import AccessPolicy, Operation, Principal, Target, TargetKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyjms.spi.errors import ProviderError
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
        """Who may do what here."""
        ...

    @property
    def writes(self) -> bool:
        """Whether settling and committing may wait for a disk."""
        ...

    def waits_briefly(self, envelope: Envelope | None) -> bool:
        """Say whether a send of `envelope`, or settling and committing (None), waits for a local disk at most. Never waits."""
        ...

    def may_lack_room(self, address: Address) -> bool:
        """Say whether a send there may have to wait until others have made room, now or in a moment. Never waits."""
        ...

    def send_together(self, sendings: Sequence[Sending]) -> Sequence[ProviderError | None]:
        """Send messages of several sessions, and return of each why it was not sent, or None. Waits for the disk, and once if
        that can be; for no room.
        """
        ...

    def send_at_once(self, session: ProviderSession, envelope: Envelope) -> None:
        """Send a message by `session`, one of this host's, and wait for no room; for the disk it may wait. Raises `QueueFullError` where
        there is none.
        """
        ...

    def connect(self, events: ConnectionEvents, *, principal: Principal, address: str) -> ProviderConnection:
        """Return a new connection to it, delivery stopped; `principal` and `address` say who it is.

        Raises `ResourceError`, `ClosedError`.
        """
        ...

    def hand_over(self, consumer: ProviderConsumer, taker: DirectConsumer) -> None:
        """Have messages for `consumer`, one of this host's, handed to `taker` where they come in, whenever it can take one."""
        ...

    def has(self, address: Address) -> bool:
        """Say whether there is such a destination already. Never waits."""
        ...

    def origin_of(self, envelope: Envelope) -> Address | None:
        """Return where a message would be returned to, which says that it is a dead letter; None: it is none. Never waits."""
        ...

    def owner_of(self, address: Address) -> ConnectionId | str:
        """Return the connection that made a temporary destination; "": unknown. Never waits."""
        ...


@fact
class Sending:
    """One message that is to be sent by itself, in no transaction."""

    session: ProviderSession
    envelope: Envelope
    guard: Guard


class HostDirectory(Protocol):
    """Finds virtual hosts by name."""

    def find(self, name: str) -> ServedHost | None:
        """Return the virtual host `name`, "" being the default one; None: there is none that serves. Any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Guard:
    """What the user of one connection may do at its virtual host. Each check raises `AccessDeniedError`."""

    principal: Principal
    host: ServedHost
    connection_id: ConnectionId
    _targets: dict[Address, Target] = field(default_factory=dict, compare=False, repr=False)
    _allowed: list[tuple[Address, object] | None] = field(default_factory=lambda: [None], compare=False, repr=False)
    """Where the last message was allowed to go, and by the rules of which epoch; None: that is not known."""

    def enter(self) -> None:
        """Ask whether the connection may be."""
        self._check(Operation.CONNECT, Target(kind=TargetKind.VIRTUAL_HOST, name=self.host.name))

    def observe(self) -> None:
        """Ask for a look at all that the virtual host has."""
        self._check(Operation.OBSERVE, Target(kind=TargetKind.VIRTUAL_HOST, name=self.host.name))

    def send(self, envelope: Envelope) -> None:
        """Ask for a message to be sent, and for its destination to be made by it."""
        address = envelope.destination
        origin = self.host.origin_of(envelope)
        # A dead letter may be returned by an operator to where it claims
        # to be from, so its sender needs the right to send there.
        if origin is not None and origin != address:
            self._use(Operation.WRITE, origin)
        epoch = self.host.access.epoch  # before the question, so that an answer by older rules is known as such
        allowed = self._allowed[0]
        # By identity of the address and of the epoch of the rules: any change of the rules makes a new epoch.
        if allowed is not None and allowed[0] is address and allowed[1] is epoch and self.host.has(address):
            return
        self._use(Operation.WRITE, address)
        self._allowed[0] = None if epoch is None else (address, epoch)

    def read(self, address: Address) -> None:
        """Ask for a consumer there. Who may read a temporary destination, the virtual host itself knows."""
        if not address.temporary:
            self._use(Operation.READ, address)

    def browse(self, address: Address) -> None:
        """Ask for a look at it."""
        self._use(Operation.BROWSE, address)

    def look(self, address: Address) -> None:
        """Ask whether it may be known that a destination is there."""
        self._check(Operation.BROWSE, self._targets.get(address) or self._target_of(address))

    def create(self, address: Address) -> None:
        """Ask for a destination to be made."""
        self._check(Operation.CREATE, Target.of(address, self.host.name))

    def subscribe(self, client_id: str, name: str) -> None:
        """Ask for a durable subscription, or for its end."""
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
            # Sending or subscribing makes a queue or topic that is not there, which is a right of its own.
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
