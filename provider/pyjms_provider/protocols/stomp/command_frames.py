"""The commands of the pyjms profile, their answers and errors as frames, and the limits of connections that use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyjms.spi.errors import ProviderError
from pyjms_provider.protocols.profile import answers, commands
from pyjms_provider.protocols.profile.commands import Command, readable
from pyjms_provider.protocols.profile.errors import CommandError
from pyjms_provider.protocols.stomp.codec import Limits
from pyjms_provider.protocols.stomp.errors import ProfileError, StompError
from pyjms_provider.protocols.stomp.frames import Frame

PROFILE_LIMITS = Limits(header_line_max=4 * 1024 * 1024, header_count_max=20_000, header_size_max=8 * 1024 * 1024)
"""The limits of both sides of a profile connection: JMS limits neither the length of a property nor their number."""
PACKED_LIMITS = replace(PROFILE_LIMITS, body_max=PROFILE_LIMITS.body_max + PROFILE_LIMITS.header_size_max)
"""The limits where a message and its properties are one body."""
PACKED_TYPE = "application/vnd.pyjms.page"
"""The content-type of a page in one MESSAGE (`packed`)."""
PROTOCOL_CODE = "PYJMS-STOMP"
"""The code of an ERROR about the frames themselves, and not about their requests."""

_MESSAGE_MAX = 200
_CLOSING = "closing"


def limits_of(*, is_packed: bool) -> Limits:
    """Return the broker's limits for a pyjms client."""
    return PACKED_LIMITS if is_packed else PROFILE_LIMITS


def command_frame(command: Command, receipt: str | None = None) -> Frame:
    """Return the frame of a command; with `receipt`, the broker answers with a RECEIPT, or ERROR, that names it."""
    headers = command.headers()
    if receipt is not None:
        headers["receipt"] = receipt
    return Frame(command.COMMAND, headers)


def read_command(frame: Frame) -> Command:
    """Return the command in `frame`. Raises `ProfileError`: no command of the profile, or a header is missing or wrong."""
    try:
        return commands.read_command(frame.command, frame.headers)
    except CommandError as error:
        raise ProfileError(error.reason, receipt=frame.receipt) from None


def receipt_frame(receipt: str, headers: Mapping[str, str] | None = None) -> Frame:
    """Return the RECEIPT for `receipt`; `headers` are those of a class of `pyjms_provider.protocols.profile.answers`."""
    return Frame("RECEIPT", {"receipt-id": receipt, **(headers or {})})


def error_frame(error: ProviderError | StompError, receipt: str | None, *, closing: bool = False) -> Frame:
    """Return the ERROR of `error`, which answers the frame that asked for `receipt`, if there is one.

    `closing`: the broker closes the connection after it. Any version of STOMP can write it.
    """
    reason = readable(error.reason)
    # One line without a carriage return, since STOMP 1.0 has no escapes.
    message = reason.partition("\n")[0].replace("\r", " ").strip()[:_MESSAGE_MAX]
    told = {"code": PROTOCOL_CODE} if isinstance(error, (StompError, CommandError)) else answers.error_headers(error)
    headers = {"message": message, **told, "content-type": "text/plain;charset=utf-8"}
    if receipt is None and isinstance(error, StompError):
        receipt = error.receipt
    if receipt is not None:
        headers["receipt-id"] = receipt
    if closing:
        headers[_CLOSING] = "true"
    body = reason.encode()
    headers["content-length"] = str(len(body))
    return Frame("ERROR", headers, body)


def is_closing(frame: Frame) -> bool:
    """Return whether the broker closes the connection after this ERROR to a pyjms client."""
    return frame.headers.get(_CLOSING) == "true"


def error_of(frame: Frame) -> ProviderError:
    """Return the error in an ERROR frame (`pyjms_provider.protocols.profile.answers.error_of`)."""
    reason = bytes(frame.body).decode("utf-8", "replace").strip() or frame.headers.get("message", "")
    return answers.error_of(frame.headers, reason)
