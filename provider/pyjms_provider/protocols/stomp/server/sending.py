"""SENDS at the broker: several messages of one session in one frame, each sent as if it had come by itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ProviderError
from pyjms.spi.property_names import SET_BY_PROVIDERS
from pyjms_provider.protocols.engine import Joint
from pyjms_provider.protocols.stomp.errors import ProfileError, StompError
from pyjms_provider.protocols.stomp.packed import read_sends
from pyjms_provider.protocols.stomp.server.hosts import Sending
from pyjms_provider.protocols.stomp.server.lane import Act
from pyjms_provider.protocols.stomp.server.plain_messages import without_provider_properties
from pyjms_provider.stores.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyjms.spi.envelope import Address
    from pyjms_provider.protocols.stomp.frames import Frame
    from pyjms_provider.protocols.stomp.server.hosts import Guard
    from pyjms_provider.protocols.stomp.server.profile import ProfileDialogue
    from pyjms_provider.protocols.stomp.server.profile_sessions import ServedSession
    from pyjms_provider.stores.codec import PackedEnvelope

__all__ = ["PackedSends"]

_PERSISTENT: Final = 2
_LITTLE: Final = 256 * 1024
"""Bytes of messages that the loop takes without looking at memory for each."""


class PackedSends:
    """Those of one connection. Messages that need not wait are sent where they are read, the others in the session's turn."""

    def __init__(self, dialogue: ProfileDialogue, guard: Guard) -> None:
        self._dialogue = dialogue
        self._guard = guard
        self._writes = guard.host.writes
        self._handing_over = dialogue.engine.service.handing_over

    def take(self, frame: Frame, session: ServedSession) -> None:
        """Send the messages of a frame, or have them sent. The connection's thread."""
        lane, is_idle = session.lane, session.lane.is_idle
        try:
            messages = read_sends(frame.body)  # type: ignore[arg-type]  # decoders make `bytes`
            for place, message in enumerate(messages):
                if not SET_BY_PROVIDERS.isdisjoint(message.properties):
                    messages[place] = decode(encode(without_provider_properties(message)))
            is_alone = len(messages) == 1
            if not is_alone and "receipt" in frame.headers:
                raise ProfileError("one receipt answers one message: send it by a SENDS of its own")
        except StompError as error:
            if is_idle:
                self._dialogue.refuse(frame, error)
            else:
                lane.add(Act(frame, partial(_fail_with, error), may_wait=False))
            return
        if is_idle:
            if is_alone:
                if self._try_to_send(frame, session, messages[0]):
                    return
            else:
                messages = messages[self._send(frame, session, messages, at_once=True) :]
        if messages and not self._dialogue.is_over:
            lane.add(self._act_of(frame, session, messages))

    def _try_to_send(self, frame: Frame, session: ServedSession, message: PackedEnvelope) -> bool:
        """Send a message, if that need not wait, or no longer than for a quick disk; return whether it was sent or refused."""
        is_written = self._writes and message.delivery_mode == _PERSISTENT and not session.transacted
        if not is_written and not session.session.may_wait(message):
            self._send_now(frame, session, message)
            return True
        if not self._guard.host.waits_briefly(message):
            return False
        return self._dialogue.engine.conduit.do_brief(partial(self._send_now, frame, session, message))

    def _send_now(self, frame: Frame, session: ServedSession, message: PackedEnvelope) -> None:
        """Send the one message of a frame, and answer it."""
        dialogue = self._dialogue
        if dialogue.is_over:
            return
        handing_over = self._handing_over
        handing_over.open()
        try:
            self._send_one(session, message)
        except ProviderError as error:
            dialogue.refuse(frame, error)
        else:
            if (receipt := frame.headers.get("receipt")) is not None:
                dialogue.confirm(frame, receipt)
        finally:
            handing_over.close()

    def _send_one(self, session: ServedSession, message: PackedEnvelope) -> None:
        self._guard.send(message)
        session.session.send(message)
        session.grow_unit(1, len(message.data))
        message.forget()  # it waits as the bytes that it came as

    def _act_of(self, frame: Frame, session: ServedSession, messages: Sequence[PackedEnvelope]) -> Act:
        """Return what sends these in their turn."""
        host = self._guard.host
        if len(messages) > 1:
            act = Act(frame, lambda: self._send_all(frame, session, messages), may_wait=True, messages=len(messages))
            act.is_patient = any(map(host.may_lack_room, {message.destination for message in messages}))
            return act
        message = messages[0]
        act = Act(frame, partial(self._send_one, session, message), session.session.may_wait(message))
        act.is_brief = act.may_wait and host.waits_briefly(message)
        act.is_patient = not act.is_brief and host.may_lack_room(message.destination)
        if act.is_brief and not session.transacted:
            part = Sending(session.session, message, self._guard)
            act.joint = Joint(host.send_together, part, partial(self._sent_together, frame, message))
        return act

    def _send_all(self, frame: Frame, session: ServedSession, messages: Sequence[PackedEnvelope]) -> None:
        self._send(frame, session, messages, at_once=False)

    def _send(self, frame: Frame, session: ServedSession, messages: Sequence[PackedEnvelope], *, at_once: bool) -> int:
        """Send messages one after the other, and tell of each that is refused; return how many were sent or refused.

        `at_once`: up to the first that may have to wait.
        """
        dialogue, target = self._dialogue, session.session
        may_wait, send = target.may_wait, target.send
        allowed: Address | None = None
        done = refused = 0
        # In a unit nothing is written yet: whether to wait is a matter of the destination, and of memory, which little does not fill.
        is_little = session.transacted and len(frame.body) <= _LITTLE
        for message in messages:
            goes_on = message.destination is allowed and self._guard.host.origin_of(message) is None
            if dialogue.is_over or (at_once and not (goes_on and is_little) and may_wait(message)):
                break
            try:
                if not goes_on:
                    self._guard.send(message)
                    allowed = message.destination
                send(message)
            except ProviderError as error:
                refused += 1
                dialogue.refuse(frame, error)
            message.forget()
            done += 1
        session.grow_unit(done - refused, len(frame.body))
        return done

    def _sent_together(self, frame: Frame, message: PackedEnvelope, error: BaseException | None) -> None:
        """Answer what was sent together with messages of others."""
        message.forget()
        dialogue = self._dialogue
        if dialogue.is_over:
            return
        if error is None:
            if (receipt := frame.receipt) is not None:
                dialogue.confirm(frame, receipt)
        elif isinstance(error, ProviderError):
            dialogue.refuse(frame, error)
        else:
            raise error


def _fail_with(error: Exception) -> None:
    raise error
