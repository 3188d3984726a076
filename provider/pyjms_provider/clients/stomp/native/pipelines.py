"""Reader groups and staged units of the pyjms broker, over a connection that heals.

All but the release of a group may be asked for again: what a lost connection left unanswered is asked once more on the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyjms.spi.errors import ProviderError
from pyjms.spi.replay import (
    GroupRequest,
    OpenGroup,
    ReaderGroup,
    ReaderGroups,
    ReservedMessage,
    StagedUnit,
    StageName,
    Stages,
)
from pyjms_provider.protocols.stomp import verbs
from pyjms_provider.protocols.stomp.answers import (
    PACKED_TYPE,
    Counted,
    GroupOpened,
    GroupsListed,
    MarkerRead,
    Promoted,
    Reserved,
    UnitsListed,
)
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.messages import from_frame

if TYPE_CHECKING:
    from pyjms_provider.clients.stomp.native.connection import NativeConnection
    from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
    from pyjms_provider.protocols.stomp.frames import Frame

CAN_UNPACK = find_spec("msgspec") is not None
"""Whether pages may come packed; `msgspec` comes with the extras `store` and `spark`."""


class Page:
    """What answers one READ: messages that come before its RECEIPT."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.frames: list[Frame] = []

    @property
    def is_waiting(self) -> bool:
        """Whether somebody may wait for messages."""
        return True

    def arrived(self, physical: PhysicalConnection, frame: Frame) -> None:
        """Put a message away. The I/O thread."""
        self.frames.append(frame)

    def interrupted(self) -> None:
        """Hear that the connection was lost: who asked hears it, too."""


class NativeReaderGroups(ReaderGroups):
    """The groups of the broker."""

    def __init__(self, connection: NativeConnection) -> None:
        self._connection = connection

    def open(self, request: GroupRequest) -> OpenGroup:
        verb = verbs.OpenReaderGroup(
            group=request.name,
            address=request.address,
            subscription=request.subscription,
            selector=request.selector or None,
        )
        # Asked again it fences whom it has just opened the group for: ourselves, who have not heard of it.
        return GroupOpened.read(self._connection.request_until_answered(verb).headers).opened

    def reserve(self, opened: OpenGroup, *, after: int, max_messages: int, max_bytes: int | None, wait_ms: int) -> int:
        verb = verbs.ReserveMessages(
            group=opened.group.name,
            generation=opened.group.generation,
            fence=opened.fence,
            after=after,
            max_messages=max_messages,
            max_bytes=max_bytes,
            wait_ms=max(0, wait_ms),
        )
        return Reserved.read(self._connection.request_until_answered(verb).headers).high

    def read(self, name: str, generation: str, *, after: int, upto: int) -> Sequence[ReservedMessage]:
        page = Page(self._connection.new_name())
        verb = verbs.ReadGroup(
            group=name, generation=generation, id=page.name, after=after, upto=upto, packed=CAN_UNPACK
        )
        self._connection.remember(page)
        try:
            answer = Counted.read(self._connection.request_until_answered(verb, page.frames.clear).headers)
        finally:
            self._connection.forget(page)
        try:
            found = [message for frame in page.frames for message in self._messages(frame)]
        except (ProfileError, KeyError, ValueError) as error:
            raise ProviderError(f"the broker's page of messages is not understood: {error}; read again") from error
        if len(found) != answer.messages:
            raise ProviderError(f"the broker sent {len(found)} messages in place of {answer.messages}; read again")
        return found

    def _messages(self, frame: Frame) -> Sequence[ReservedMessage]:
        headers = frame.headers
        if headers.get("content-type") != PACKED_TYPE:
            return (self._message(frame),)
        from pyjms_provider.protocols.stomp.packed import unpack

        return unpack(bytes(frame.body), int(headers["ack"]), self._connection.received)

    def _message(self, frame: Frame) -> ReservedMessage:
        headers = frame.headers
        return ReservedMessage(
            number=int(headers["ack"]),
            envelope=self._connection.received(from_frame(frame, PYJMS)),
            count=int(headers.get("delivery-count", "1")),
            redelivered=headers.get("redelivered") == "true",
        )

    def acknowledge(self, opened: OpenGroup, upto: int) -> None:
        group = opened.group
        self._connection.request_until_answered(
            verbs.AcknowledgeGroup(group=group.name, generation=group.generation, fence=opened.fence, upto=upto)
        )

    def release(self, name: str) -> int:
        return Counted.read(self._connection.request(verbs.ReleaseGroup(group=name)).headers).messages

    def groups(self) -> Sequence[ReaderGroup]:
        return GroupsListed.read(self._connection.request_until_answered(verbs.ListGroups()).headers).groups


class NativeStages(Stages):
    """The staged units of the broker."""

    def __init__(self, connection: NativeConnection) -> None:
        self._connection = connection

    def promote(self, sink: str, epoch: int, units: Sequence[StageName]) -> bool:
        # After a lost connection False may mean that the question which got no answer has done it: done it is.
        verb = verbs.PromoteEpoch(sink=sink, epoch=epoch, units=tuple(units))
        return Promoted.read(self._connection.request_until_answered(verb).headers).is_new

    def discard(self, units: Sequence[StageName]) -> None:
        self._connection.request_until_answered(verbs.DiscardUnits(units=tuple(units)))

    def marker(self, sink: str) -> int | None:
        return MarkerRead.read(self._connection.request_until_answered(verbs.ReadMarker(sink=sink)).headers).epoch

    def units(self, sink: str | None = None) -> Sequence[StagedUnit]:
        return UnitsListed.read(self._connection.request_until_answered(verbs.ListUnits(sink=sink)).headers).units


def stage_verb(session: str, name: StageName, keep_s: int) -> verbs.StageTransaction:
    """Return what stages the transaction of a session; the answer is `Counted`."""
    return verbs.StageTransaction(
        session=session,
        sink=name.sink,
        epoch=name.epoch,
        partition=name.partition,
        attempt=name.attempt,
        keep_s=keep_s,
    )
