"""Errors of the SPI as headers of ERROR, and back: a pyjms client raises the very class that the broker raised, or, where that is one
of the broker's own, the class of the SPI that it is a kind of, with its code.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyjms.spi.errors import BranchError, InvalidSelectorError, ProviderError, RolledBackError
from pyjms.spi.xid import BranchFailure
from pyjms_provider.protocols.stomp.errors import StompError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.verb_headers import readable

__all__ = ["PROTOCOL_CODE", "error_frame", "error_headers", "error_of", "is_closing"]

PROTOCOL_CODE = "PYJMS-STOMP"
"""The code of an ERROR about the frames themselves, rather than about what they ask for."""

_OURS = "PYJMS-"
_MESSAGE_MAX = 200
_CLOSING = "closing"
_CAUSE = "cause"
_KIND = "kind"


def _all_classes(root: type[ProviderError]) -> dict[str, type[ProviderError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        if child.__module__ == ProviderError.__module__:  # others may have added their own
            found.update(_all_classes(child))
    return found


_BY_CODE: Mapping[str, type[ProviderError]] = _all_classes(ProviderError)
_KINDS = frozenset(_BY_CODE.values())


def _kind_of(error: ProviderError) -> str:
    """Return the code of the class of the SPI that an error is, or is a kind of."""
    return next(kind.code for kind in type(error).__mro__ if kind in _KINDS)


def error_headers(error: ProviderError | StompError) -> dict[str, str]:
    """Return the headers by which `error_of` makes the error again; the body of the frame is its `reason`."""
    if isinstance(error, StompError):
        return {"code": PROTOCOL_CODE}
    headers = {"code": error.code}
    if error.code not in _BY_CODE:
        headers[_KIND] = _kind_of(error)
    if isinstance(error, BranchError):
        headers["failure"] = error.failure.name
    elif isinstance(error, InvalidSelectorError):
        headers |= {
            "problem": readable(error.problem),
            "selector": readable(error.selector),
            "position": str(error.position),
        }
    elif isinstance(error, RolledBackError) and isinstance(error.__cause__, ProviderError):
        headers[_CAUSE] = _kind_of(error.__cause__)
    return headers


def error_frame(error: ProviderError | StompError, receipt: str | None, *, closing: bool = False) -> Frame:
    """Return the ERROR of `error`, which answers the frame that asked for `receipt`, if one did.

    `closing`: the broker closes the connection after it. Any version of STOMP can write it.
    """
    reason = readable(error.reason)
    message = reason.partition("\n")[0].replace("\r", " ").strip()[:_MESSAGE_MAX]
    headers = {"message": message, **error_headers(error), "content-type": "text/plain;charset=utf-8"}
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
    """Say whether the broker closes the connection after this ERROR to a pyjms client."""
    return frame.headers.get(_CLOSING) == "true"


def error_of(frame: Frame) -> ProviderError:
    """Return the error that an ERROR frame tells of: of its own class where its code is known, else of the class that it is a kind of,
    or `ProviderError`, with that code.
    """
    headers = frame.headers
    reason = bytes(frame.body).decode("utf-8", "replace").strip() or headers.get("message", "")
    reason = reason or "the broker refused without saying why"
    code = headers.get("code", "")
    kind = _BY_CODE.get(code) or _BY_CODE.get(headers.get(_KIND, ""), ProviderError)
    if kind is BranchError:
        failure = BranchFailure.__members__.get(headers.get("failure", ""), BranchFailure.FAILED)
        return BranchError(reason, failure)
    if kind is InvalidSelectorError:
        return _selector_error(headers, reason)
    error = kind(reason)
    if code.startswith(_OURS):
        vars(error)["code"] = code  # of this one: the class has that of its kind
    if kind is RolledBackError and _CAUSE in headers:  # the reason tells of both
        error.__cause__ = _BY_CODE.get(headers[_CAUSE], ProviderError)(reason)
    return error


def _selector_error(headers: Mapping[str, str], reason: str) -> ProviderError:
    position, selector = headers.get("position", ""), headers.get("selector", "")
    if position.isascii() and position.isdigit() and len(position) < 10:
        return InvalidSelectorError(headers.get("problem", reason), selector, min(int(position), len(selector)))
    return InvalidSelectorError(reason, selector, 0)
