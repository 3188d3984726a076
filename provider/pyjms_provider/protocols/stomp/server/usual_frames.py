"""The frames that a pyjms client mostly sends, as it writes them: read in one look, and done at once where nothing is in the way.

ACK of one message that no disk has, and SENDS. Whatever else comes, or has another form, or must wait, goes the long way: the decoder
reads it, and says what is wrong with it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ProviderError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.verbs import PACKED_LIMITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyjms_provider.protocols.stomp.server.profile import ProfileDialogue
    from pyjms_provider.protocols.stomp.server.profile_sessions import ServedSession
    from pyjms_provider.protocols.stomp.server.sending import PackedSends

__all__ = ["UsualFrames"]

_NAME: Final = rb"([A-Za-z0-9.\-]{1,100}+)\n"
_known = re.compile(
    rb"ACK\nsession:" + _NAME + rb"ids:([1-9][0-9]{0,17}+)(?:-\2)?\n\n\0|"
    rb"SENDS\nsession:" + _NAME + rb"(?:receipt:" + _NAME + rb")?content-length:([1-9][0-9]{0,8}+)\n\n"
).match


class UsualFrames:
    """Those of one connection. The connection's thread."""

    def __init__(self, dialogue: ProfileDialogue, sessions: Mapping[str, ServedSession], sends: PackedSends) -> None:
        self._dialogue = dialogue
        self._sessions = sessions
        self._sends = sends
        self._writes = dialogue.guard.host.writes

    def take(self, data: bytes) -> bytes:
        """Do what the frames ask for that `data` begins with, up to the first one that is to go the long way.

        Returns what comes from there on. What must wait for its turn waits in its lane; who calls runs it.
        """
        at, end = 0, len(data)
        dialogue, sessions = self._dialogue, self._sessions
        while at < end and not dialogue.is_over:
            found = _known(data, at)
            if found is None:
                break
            acknowledging, number, sending, receipt, length = found.groups()
            name = (acknowledging or sending).decode()
            session = sessions.get(name)
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
            if stop >= end or data[stop] or size > PACKED_LIMITS.body_max:
                break
            headers = {"session": name} if receipt is None else {"session": name, "receipt": receipt.decode()}
            self._sends.take(Frame("SENDS", headers, data[begin:stop]), session)
            at = stop + 1
        return data[at:]

    def _acknowledge(self, session: ServedSession, number: int) -> bool:
        """Acknowledge one delivery, if that is the next to be done and need not wait; return whether it was."""
        delivery = session.unsettled.get(number)
        if delivery is None or session.is_in_unit or not session.lane.is_idle:
            return False
        if self._writes and delivery.envelope.delivery_mode == _PERSISTENT:
            return False
        del session.unsettled[number]
        try:
            session.session.acknowledge([delivery])
        except ProviderError as error:
            self._dialogue.refuse(Frame("ACK", {"session": session.name}), error)
        return True


_PERSISTENT: Final = 2
