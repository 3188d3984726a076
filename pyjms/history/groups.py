"""The recorder of reader groups: messages that a group reserves are recorded as delivered to it, messages that it acknowledges as acknowledged by it.

A group is one consumer, named by its name and generation, for all processes that act for it; a message's number is that of
the delivery. Reads are not recorded, as they may be repeated any number of times. Recorded messages must be read, so a recorded
reservation reads the messages that it has reserved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pyjms.history.events import ACK, DELIVER, OK, RECOVER
from pyjms.history.rows import Call, Held, Scope
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import GroupError
from pyjms.spi.replay import GroupRequest, OpenGroup, ReaderGroup, ReaderGroups, ReservedMessage

if TYPE_CHECKING:
    from pyjms.history.recording import Recording

_DURABLE: Final = "{}/{}"


class RecordedGroups(ReaderGroups):
    """Records the calls that pass through it."""

    def __init__(
        self,
        inner: ReaderGroups,
        recording: Recording,
        own: Scope,
        now: Callable[[], int],
        noted: Callable[[Call, Callable[[], object]], object],
    ) -> None:
        """`own`: the connection's scope; `noted` records a call with its outcome."""
        self._inner = inner
        self._recording = recording
        self._own = own
        self._now = now
        self._noted = noted
        self._scopes: dict[tuple[str, str], Scope] = {}
        self._seen: dict[tuple[str, str], int] = {}  # by name and generation: the highest number that is recorded

    def open(self, request: GroupRequest) -> OpenGroup:
        opened = self._inner.open(request)
        group = opened.group
        # Another process may have reserved messages for this generation already, and has recorded them.
        self._seen.setdefault((group.name, group.generation), group.high)
        return opened

    def reserve(self, opened: OpenGroup, *, after: int, max_messages: int, max_bytes: int | None, wait_ms: int) -> int:
        called_ns = self._now()
        high = self._inner.reserve(opened, after=after, max_messages=max_messages, max_bytes=max_bytes, wait_ms=wait_ms)
        group = opened.group
        seen = self._seen.get((group.name, group.generation), after)
        # A reserve may return messages that are reserved already; only new numbers are deliveries.
        if high > seen:
            self._seen[group.name, group.generation] = high
            scope = self._scope_of(group)
            for message in self._read(group, seen, high):
                held = _held(message, scope)
                self._recording.log.put(Call(DELIVER, scope, called_ns, None, held), OK, self._now())
        return high

    def read(self, name: str, generation: str, *, after: int, upto: int) -> Sequence[ReservedMessage]:
        return self._inner.read(name, generation, after=after, upto=upto)

    def acknowledge(self, opened: OpenGroup, upto: int) -> None:
        group = self._present(opened.group.name)
        # Read before the call, since acknowledged messages cannot be read any more. A wrong number is the provider's to
        # refuse.
        settled = () if group is None or upto > group.high else self._read(group, group.low, upto)
        if not settled:
            self._inner.acknowledge(opened, upto)
            return
        self._noted(self._call(ACK, opened.group, settled), lambda: self._inner.acknowledge(opened, upto))

    def release(self, name: str) -> int:
        group = self._present(name)
        # Read before the call: a released group no longer has them.
        returned = () if group is None else self._read(group, group.low, group.high)
        if group is None or not returned:
            return self._inner.release(name)
        # `noted` returns no value of the call, so the answer is passed out in a list.
        released: list[int] = []
        self._noted(self._call(RECOVER, group, returned), lambda: released.append(self._inner.release(name)))
        return released[0]

    def groups(self) -> Sequence[ReaderGroup]:
        return self._inner.groups()

    def _present(self, name: str) -> ReaderGroup | None:
        return next((group for group in self._inner.groups() if group.name == name), None)

    def _read(self, group: ReaderGroup, after: int, upto: int) -> Sequence[ReservedMessage]:
        found: list[ReservedMessage] = []
        while after + len(found) < upto:
            try:
                found += self._inner.read(group.name, group.generation, after=after + len(found), upto=upto)
            except GroupError:
                break  # they were acknowledged, or the group was released, at this moment
        return found

    def _scope_of(self, group: ReaderGroup) -> Scope:
        key = group.name, group.generation
        scope = self._scopes.get(key)
        if scope is None:
            own, name = self._own, f"group {group.name}/{group.generation}"
            sub = None if group.subscription is None else _DURABLE.format(group.client_id or "", group.subscription)
            # Without a connection, as none ends it; the session's name identifies the client here.
            scope = Scope(own.pid, None, f"{name}@{own.conn}", name, dest=str(group.address), sub=sub)
            self._scopes[key] = scope
        return scope

    def _call(self, op: str, group: ReaderGroup, messages: Sequence[ReservedMessage]) -> Call:
        scope = self._scope_of(group)
        deliveries = tuple(
            Delivery(message.envelope, message.count, message.redelivered, _held(message, scope))
            for message in messages
        )
        return Call(op, scope, self._now(), None, deliveries)


def _held(message: ReservedMessage, scope: Scope) -> Held:
    return Held(Delivery(message.envelope, message.count, message.redelivered, None), scope, message.number)
