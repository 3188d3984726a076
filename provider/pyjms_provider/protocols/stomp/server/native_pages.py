"""Pages of reader groups as MESSAGE frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms_provider.protocols.profile.answers import Counted
from pyjms_provider.protocols.stomp.codec import shown_id
from pyjms_provider.protocols.stomp.command_frames import PACKED_TYPE
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.messages import to_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyjms.spi.replay import ReservedMessage
    from pyjms_provider.protocols.profile.commands import ReadGroup


def send_page(page: Sequence[ReservedMessage], command: ReadGroup, emit: Callable[[Frame], None]) -> Mapping[str, str]:
    """Send a page as READ asks for it; return the headers of the answer."""
    if command.packed and len(page) > 1:
        emit(_packed(page, command.id))
    else:
        for message in page:
            emit(_message(message, command.id))
    return Counted(len(page)).headers()


def _packed(page: Sequence[ReservedMessage], name: str) -> Frame:
    """Return the MESSAGE of a whole page."""
    from pyjms_provider.protocols.stomp.packed import pack

    body = pack(page)
    headers = {
        "subscription": name,
        "ack": str(page[0].number),
        "message-id": f"{page[0].number}-{page[-1].number}",
        "content-type": PACKED_TYPE,
        "content-length": str(len(body)),
    }
    return Frame("MESSAGE", headers, body)


def _message(message: ReservedMessage, name: str) -> Frame:
    """Return the MESSAGE of one message of a group; `name` is the id in READ."""
    frame = to_frame(message.envelope, PYJMS, command="MESSAGE", version=Version.V1_2)
    headers = frame.headers
    headers["subscription"] = name
    headers["ack"] = str(message.number)  # no property has this name on the wire
    headers["message-id"] = shown_id(message.envelope.message_id, str(message.number))
    headers["delivery-count"] = str(message.count)
    headers["redelivered"] = "true" if message.redelivered else "false"
    return frame
