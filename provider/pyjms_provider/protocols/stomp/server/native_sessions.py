"""The sessions of a pyjms client at the broker: their unsettled messages, and their sends.

SENDS has several messages in one frame, each sent as if in a frame of its own. The usual frames of a pyjms client are parsed by one regular
expression, and done at once if nothing precedes them (`NativeFastFrames`): ACK of one message that is on no disk, and SENDS. All other
frames go through the decoder, which reports their errors.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.spi.envelope import SET_BY_PROVIDERS
from pyjms.spi.errors import ProviderError, TooLateError
from pyjms_provider.protocols.engine import BatchJob, RemoteJob
from pyjms_provider.protocols.hosts import Sending
from pyjms_provider.protocols.profile.commands import named
from pyjms_provider.protocols.profile.unit import ServedUnit
from pyjms_provider.protocols.stomp.command_frames import PACKED_LIMITS
from pyjms_provider.protocols.stomp.errors import ProfileError, StompError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.packed import read_sends
from pyjms_provider.protocols.stomp.server.contracts import FrameTask
from pyjms_provider.protocols.stomp.server.standard import without_provider_properties
from pyjms_provider.stores.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ProviderSession
    from pyjms_provider.protocols.hosts import Guard, ServedHost
    from pyjms_provider.protocols.profile.commands import DeliveryIds
    from pyjms_provider.protocols.scheduling import SerialExecutor, SessionScheduler
    from pyjms_provider.protocols.stomp.server.contracts import NativeConnection
    from pyjms_provider.stores.codec import PackedEnvelope

_SMALL: Final = 256
_RANGE_BYTES: Final = 128
_PERSISTENT: Final = 2


class ServedSession:
    """One session. Only its executor uses it, except `unsettled`, to which the connection's thread adds."""

    def __init__(
        self,
        name: str,
        session: ProviderSession,
        executor: SerialExecutor[FrameTask],
        scheduler: SessionScheduler,
        *,
        transacted: bool,
        persists_all: bool,
        asks_others: bool,
    ) -> None:
        self.name = name
        self.session = session
        self.executor = executor
        self.scheduler = scheduler
        """The session's consumers and browsers that may have work; any thread may call `schedule`."""
        self.unit = ServedUnit(session, self, transacted=transacted)
        """The open transaction or branch."""
        self._persists_all = persists_all
        self._asks_others = asks_others
        self.unsettled: dict[int, Delivery] = {}
        """By number, as MESSAGE has it in `ack`."""
        self.late: tuple[FrameTask, list[range]] | None = None
        """The last acknowledgement without a receipt, and its ids: later ones may join it."""
        self._acknowledged: dict[int, Delivery] = {}
        """The deliveries acknowledged in the open transaction or branch."""

    def waits_for(self, ids: DeliveryIds) -> bool:
        """Return whether an acknowledgement of these may wait: for another process, or for a disk that has them.

        One in a transaction or branch writes nothing, but may ask another process.
        """
        if self._asks_others:
            return True
        if self.unit.is_open:
            return False
        if self.unit.is_tagged:
            return True
        if len(ids) == 1 and len(ids[0]) == 1:
            delivery = self.unsettled.get(ids[0][0])
            return delivery is not None and self._is_written(delivery)
        # A header of some bytes may name millions: they are not looked up on the loop.
        if sum(map(len, ids)) > _SMALL:
            return True
        return any(map(self._is_written, self._named(ids).values()))

    def _is_written(self, delivery: Delivery) -> bool:
        return self._persists_all or delivery.envelope.delivery_mode == _PERSISTENT

    def joins(self, ids: DeliveryIds) -> bool:
        """Add these to the last acknowledgement, if that is the last waiting task; return whether they were added."""
        if self.late is None or self.executor.last is not self.late[0]:
            return False
        task, numbers = self.late
        numbers.extend(ids)
        grown = _RANGE_BYTES * len(ids)
        task.joined_bytes += grown
        self.executor.grow(grown)
        return True

    def take(self, ids: DeliveryIds) -> list[Delivery]:
        """Take deliveries out of the unsettled ones, in the order of `ids`; missing ones are left out."""
        return list(self._take(ids).values())

    def _take(self, ids: DeliveryIds) -> dict[int, Delivery]:
        """As `take`, by number."""
        if len(ids) == 1 and len(ids[0]) == 1:
            delivery = self.unsettled.pop(ids[0][0], None)
            return {} if delivery is None else {ids[0][0]: delivery}
        # `pop` with a default, as another session may adopt the delivery at this moment.
        found = ((number, self.unsettled.pop(number, None)) for number in self._known(ids))
        return {number: delivery for number, delivery in found if delivery is not None}  # as in `_named`

    def acknowledge(self, ids: DeliveryIds, *, is_reported: bool = True) -> None:
        """Settle deliveries; in a transaction or branch they stay the session's until it ends. Raises as the SPI does.

        `is_reported`: the client learns of a failure, and may ask again, or give them back.
        """
        if not self.unit.is_open:
            taken = self._take(ids)
            try:
                self.session.acknowledge(list(taken.values()))
            except TooLateError:
                raise  # they come again, as new deliveries
            except ProviderError:
                # A client that hears of the failure may ask again, or give the messages back.
                if is_reported:
                    self.unsettled.update(taken)
                raise
            return
        found = self._named(ids)
        self.session.acknowledge(list(found.values()))
        self.unit.size += len(found)
        self._acknowledged.update(found)

    def begin_acknowledge(
        self, host: ServedHost, ids: DeliveryIds, done: Callable[[BaseException | None], None]
    ) -> bool:
        """Have another process settle deliveries, if it can; return whether it was asked. Raises as the SPI does."""
        if self.unit.is_open:
            return False
        taken = self._take(ids)

        def settled(error: BaseException | None) -> None:
            # As in `acknowledge`.
            if error is not None and not isinstance(error, TooLateError):
                self.unsettled.update(taken)
            done(error)

        is_begun = False
        try:
            is_begun = host.begin_acknowledge(self.session, list(taken.values()), settled)
        finally:
            if not is_begun:
                self.unsettled.update(taken)
        return is_begun

    # AcceptedDeliveries

    def committed(self) -> None:
        """Drop the acknowledged deliveries: the transaction has been committed, or the branch, which keeps them, has ended."""
        # Only now: after a rollback the client may still recover or acknowledge them.
        for number in self._acknowledged:
            self.unsettled.pop(number, None)
        self._acknowledged.clear()

    def rolled_back(self) -> None:
        """Leave the acknowledged deliveries with the client, until it gives them back."""
        self._acknowledged.clear()

    def _named(self, ids: DeliveryIds) -> dict[int, Delivery]:
        """Return the deliveries of `ids` that are unsettled here, in order. Another session may adopt some at this moment, on another
        thread.
        """
        found = ((number, self.unsettled.get(number)) for number in self._known(ids))
        return {number: delivery for number, delivery in found if delivery is not None}

    def _known(self, ids: DeliveryIds) -> list[int]:
        """Return the numbers in `ids` that were unsettled here a moment ago, in order, each once."""
        return named(ids, self.unsettled)


_LITTLE: Final = 256 * 1024
"""Bytes of messages that the loop accepts without a check of the memory for each."""


class PackedSends:
    """The SENDS frames of one connection. Messages that need not wait are sent at once, the others in the session's turn."""

    def __init__(self, handler: NativeConnection, guard: Guard) -> None:
        self._handler = handler
        self._guard = guard
        self._writes = guard.host.writes
        self._direct_deliveries = handler.engine.service.direct_deliveries

    def take(self, frame: Frame, session: ServedSession, *, is_followed: bool = False) -> None:
        """Send the messages of a frame, or queue them. The connection's thread.

        `is_followed`: more frames have come with it, so that a disk is written once for them.
        """
        executor, is_idle = session.executor, session.executor.is_idle
        try:
            # All are read before the first is sent: if one cannot be decoded, none is sent (decision 0150).
            messages = read_sends(frame.body)  # type: ignore[arg-type]  # decoders make `bytes`
            for place, message in enumerate(messages):
                if not SET_BY_PROVIDERS.isdisjoint(message.properties):
                    # Encoded again: the received bytes are stored and delivered, and contain these properties.
                    messages[place] = decode(encode(without_provider_properties(message)))
            is_single = len(messages) == 1
            if not is_single and "receipt" in frame.headers:
                raise ProfileError("one receipt answers one message: send it by a SENDS of its own")
        except StompError as error:
            if is_idle:
                self._handler.refuse(frame, error)
            else:
                executor.add(FrameTask(frame, partial(_fail_with, error), may_wait=False))
            return
        if is_idle:
            if is_single:
                if self._try_to_send(frame, session, messages[0], is_followed=is_followed):
                    return
            else:
                messages = messages[self._send(frame, session, messages, at_once=True) :]
        # The rest is sent in the session's turn, after the messages sent here: the order is kept.
        if messages and not self._handler.is_over:
            executor.add(self._task_of(frame, session, messages))

    def _try_to_send(self, frame: Frame, session: ServedSession, message: PackedEnvelope, *, is_followed: bool) -> bool:
        """Send a message, if that need not wait, or only for a quick disk; return whether it was sent or refused."""
        # In a transaction nothing is written before the commit.
        is_written = self._writes and message.delivery_mode == _PERSISTENT and not session.unit.transacted
        if not is_written and not session.session.may_wait(message):
            self._send_now(frame, session, message)
            return True
        if is_followed or not self._guard.host.waits_briefly(message):
            return False
        return self._handler.engine.transport.do_brief(partial(self._send_now, frame, session, message))

    def _send_now(self, frame: Frame, session: ServedSession, message: PackedEnvelope) -> None:
        """Send the only message of a frame, and answer it."""
        handler = self._handler
        if handler.is_over:
            return
        direct_deliveries = self._direct_deliveries
        # Consumers of this loop may take the message while it is sent; `close` writes it to them (decision 0610).
        direct_deliveries.open()
        try:
            self._send_one(session, message)
        except ProviderError as error:
            handler.refuse(frame, error)
        else:
            if (receipt := frame.headers.get("receipt")) is not None:
                handler.confirm(frame, receipt)
        finally:
            direct_deliveries.close()

    def _send_one(self, session: ServedSession, message: PackedEnvelope) -> None:
        # Rights are checked at the send, and not when the frame arrives: they may have changed.
        self._guard.send(message)
        session.session.send(message)
        session.unit.grow(1, len(message.data))
        message.forget()  # only the received bytes are kept

    def _begin_one(
        self, session: ServedSession, message: PackedEnvelope, done: Callable[[BaseException | None], None]
    ) -> bool:
        host = self._guard.host
        # Of a destination that is not known yet, its member is asked whether it is there, and that is waited for.
        if self._handler.is_over or not host.has(message.destination):
            return False
        self._guard.send(message)
        return host.begin_send(session.session, message, done)

    def _task_of(self, frame: Frame, session: ServedSession, messages: Sequence[PackedEnvelope]) -> FrameTask:
        """Return the task that sends these in their turn."""
        host = self._guard.host
        if len(messages) > 1:
            task = FrameTask(
                frame, lambda: self._send_all(frame, session, messages), may_wait=True, messages=len(messages)
            )
            task.is_patient = any(map(host.may_wait_for_room, {message.destination for message in messages}))
            return task
        message = messages[0]
        task = FrameTask(frame, partial(self._send_one, session, message), session.session.may_wait(message))
        task.is_brief = task.may_wait and host.waits_briefly(message)
        task.is_patient = not task.is_brief and host.may_wait_for_room(message.destination)
        if host.has_remote and not session.unit.is_open:
            ended = partial(self._sent_together, frame, message)
            task.remote = RemoteJob(partial(self._begin_one, session, message), ended)
        if task.is_brief and not session.unit.transacted and not session.unit.is_tagged:
            part = Sending(session.session, message, self._guard)
            # Confirmed sends that come together, and those of several connections, share one forced write (decision 0600).
            task.batch = BatchJob(host.send_together, part, partial(self._sent_together, frame, message))
        return task

    def _send_all(self, frame: Frame, session: ServedSession, messages: Sequence[PackedEnvelope]) -> None:
        self._send(frame, session, messages, at_once=False)

    def _send(self, frame: Frame, session: ServedSession, messages: Sequence[PackedEnvelope], *, at_once: bool) -> int:
        """Send messages one after the other, and refuse those that fail; return how many were sent or refused.

        `at_once`: up to the first that may have to wait.
        """
        handler, target = self._handler, session.session
        may_wait, send = target.may_wait, target.send
        allowed: Address | None = None
        done = refused = 0
        # In a unit nothing is written yet: a wait depends on the destination, and on memory, which little data does not fill.
        is_little = session.unit.transacted and len(frame.body) <= _LITTLE
        for message in messages:
            # Compared by identity, as the codec caches addresses; the
            # right to send to this one was checked for the last message.
            goes_on = message.destination is allowed and self._guard.host.origin_of(message) is None
            if handler.is_over or (at_once and not (goes_on and is_little) and may_wait(message)):
                break
            try:
                if not goes_on:
                    self._guard.send(message)
                    allowed = message.destination
                send(message)
            except ProviderError as error:
                refused += 1
                handler.refuse(frame, error)
            # The decoded message is dropped: the received bytes are kept.
            message.forget()
            done += 1
        session.unit.grow(done - refused, len(frame.body))
        return done

    def _sent_together(self, frame: Frame, message: PackedEnvelope, error: BaseException | None) -> None:
        """Answer a message that was sent together with messages of other connections."""
        message.forget()
        handler = self._handler
        if handler.is_over:
            return
        if error is None:
            if (receipt := frame.receipt) is not None:
                handler.confirm(frame, receipt)
        elif isinstance(error, ProviderError):
            handler.refuse(frame, error)
        else:
            raise error


def _fail_with(error: Exception) -> None:
    raise error


_NAME: Final = rb"([A-Za-z0-9.\-]{1,100}+)\n"
# Exactly as a pyjms client writes them. Possessive quantifiers (`}+`)
# give nothing back, so that a hostile frame costs linear time.
_known = re.compile(
    rb"ACK\nsession:" + _NAME + rb"ids:([1-9][0-9]{0,17}+)(?:-\2)?\n\n\0|"
    rb"SENDS\nsession:" + _NAME + rb"content-length:([1-9][0-9]{0,8}+)\n(?:receipt:" + _NAME + rb")?\n"
).match


class NativeFastFrames:
    """The fast frames of one connection. The connection's thread."""

    def __init__(self, handler: NativeConnection, sessions: Mapping[str, ServedSession], sends: PackedSends) -> None:
        self._handler = handler
        self._sessions = sessions
        self._sends = sends
        self._writes = handler.guard.host.writes
        self._persists_all = handler.guard.host.persists_all

    def take(self, data: bytes) -> bytes:
        """Do the frames at the beginning of `data`, up to the first one that needs the decoder.

        Returns the rest. Messages that must wait are queued in the session's executor, which the caller runs.
        """
        at, end = 0, len(data)
        handler, sessions = self._handler, self._sessions
        while at < end and not handler.is_over:
            found = _known(data, at)
            if found is None:
                break
            acknowledging, number, sending, length, receipt = found.groups()
            name = (acknowledging or sending).decode()
            session = sessions.get(name)
            # The decoder's way reports that there is no such session.
            if session is None:
                break
            begin = found.end()
            if sending is None:
                if not self._acknowledge(session, int(number)):
                    break
                at = begin
                continue
            size = int(length)
            stop = begin + size
            # The frame is incomplete, wrong or too large: the decoder waits for the rest, or refuses it.
            if stop >= end or data[stop] or size > PACKED_LIMITS.body_max:
                break
            headers = {"session": name} if receipt is None else {"session": name, "receipt": receipt.decode()}
            at = stop + 1
            self._sends.take(Frame("SENDS", headers, data[begin:stop]), session, is_followed=at < end)
        return data[at:]

    def _acknowledge(self, session: ServedSession, number: int) -> bool:
        """Acknowledge one delivery, if no earlier frame of the session is pending and it need not wait; return whether it was done."""
        delivery = session.unsettled.get(number)
        if delivery is None or session.unit.is_open or session.unit.is_tagged or not session.executor.is_idle:
            return False
        # It would have to be written, which the loop must not wait for.
        if self._persists_all or (self._writes and delivery.envelope.delivery_mode == _PERSISTENT):
            return False
        del session.unsettled[number]
        try:
            session.session.acknowledge([delivery])
        except ProviderError as error:
            self._handler.refuse(Frame("ACK", {"session": session.name}), error)
        return True
