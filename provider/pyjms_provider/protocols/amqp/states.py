"""The states of connections, sessions and links, as tables: what is not in a table is an error (part 2, 2.4.6, 2.5.5 and 2.6.3)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from pyjms_provider.core.state_machine import StateMachine


class Input(Enum):
    """What this side or the peer does. What is received, the peer does."""

    SEND_HEADER = "send header"
    RECEIVE_HEADER = "receive header"
    SEND_OPEN = "send open"
    RECEIVE_OPEN = "receive open"
    SEND_CLOSE = "send close"
    SEND_CLOSE_WITH_ERROR = "send close with an error"
    RECEIVE_CLOSE = "receive close"
    SEND_BEGIN = "send begin"
    RECEIVE_BEGIN = "receive begin"
    SEND_END = "send end"
    SEND_END_WITH_ERROR = "send end with an error"
    RECEIVE_END = "receive end"
    SEND_ATTACH = "send attach"
    RECEIVE_ATTACH = "receive attach"
    SEND_DETACH = "send detach"
    RECEIVE_DETACH = "receive detach"


class ConnectionState(Enum):
    """The states of a connection (part 2, 2.4.6)."""

    START = "start"
    HEADER_RECEIVED = "header received"
    HEADER_SENT = "header sent"
    HEADERS_EXCHANGED = "headers exchanged"
    OPEN_PIPE = "open pipe"
    CLOSE_PIPE = "close pipe"
    OPEN_RECEIVED = "open received"
    OPEN_SENT = "open sent"
    OPENED = "opened"
    CLOSE_RECEIVED = "close received"
    CLOSE_SENT = "close sent"
    DISCARDING = "discarding"
    """Closed by this side for an error: what comes before the peer's close is passed over."""
    ENDED = "ended"


class SessionState(Enum):
    """The states of a session (part 2, 2.5.5)."""

    UNMAPPED = "unmapped"
    BEGIN_SENT = "begin sent"
    BEGIN_RECEIVED = "begin received"
    MAPPED = "mapped"
    END_SENT = "end sent"
    END_RECEIVED = "end received"
    DISCARDING = "discarding"
    """Ended by this side for an error: what comes before the peer's end is passed over."""


class LinkState(Enum):
    """The states of a link's endpoint."""

    DETACHED = "detached"
    ATTACH_SENT = "attach sent"
    ATTACH_RECEIVED = "attach received"
    ATTACHED = "attached"
    DETACH_SENT = "detach sent"
    DETACH_RECEIVED = "detach received"
    ENDED = "ended"


# For what is asked for each message: before Python 3.12, a member that is named through its class costs as much as a call.
ATTACHED: Final = LinkState.ATTACHED
OPEN_RECEIVED: Final = ConnectionState.OPEN_RECEIVED
CONNECTION_ENDED: Final = ConnectionState.ENDED
CONNECTION_DEAF: Final = (ConnectionState.DISCARDING, ConnectionState.CLOSE_SENT, ConnectionState.CLOSE_RECEIVED)
"""The states in which nothing but the peer's open and close is looked at."""
SESSION_DEAF: Final = (SessionState.DISCARDING, SessionState.END_SENT)
"""The states in which nothing but the peer's end is looked at."""

_C, _S, _L, _I = ConnectionState, SessionState, LinkState, Input

CONNECTION: Final = StateMachine(
    "the connection",
    {
        _C.START: {
            _I.SEND_HEADER: _C.HEADER_SENT,
            _I.RECEIVE_HEADER: _C.HEADER_RECEIVED,
        },
        _C.HEADER_RECEIVED: {
            _I.SEND_HEADER: _C.HEADERS_EXCHANGED,
        },
        _C.HEADER_SENT: {
            _I.RECEIVE_HEADER: _C.HEADERS_EXCHANGED,
            _I.SEND_OPEN: _C.OPEN_PIPE,
        },
        _C.OPEN_PIPE: {
            _I.RECEIVE_HEADER: _C.OPEN_SENT,
            _I.SEND_CLOSE: _C.CLOSE_PIPE,
            _I.SEND_CLOSE_WITH_ERROR: _C.CLOSE_PIPE,
        },
        _C.CLOSE_PIPE: {
            _I.RECEIVE_HEADER: _C.CLOSE_SENT,
        },
        _C.HEADERS_EXCHANGED: {
            _I.SEND_OPEN: _C.OPEN_SENT,
            _I.RECEIVE_OPEN: _C.OPEN_RECEIVED,
        },
        _C.OPEN_RECEIVED: {
            _I.SEND_OPEN: _C.OPENED,
            _I.RECEIVE_CLOSE: _C.CLOSE_RECEIVED,
        },
        _C.OPEN_SENT: {
            _I.RECEIVE_OPEN: _C.OPENED,
            _I.SEND_CLOSE: _C.CLOSE_SENT,
            _I.SEND_CLOSE_WITH_ERROR: _C.DISCARDING,
        },
        _C.OPENED: {
            _I.SEND_CLOSE: _C.CLOSE_SENT,
            _I.SEND_CLOSE_WITH_ERROR: _C.DISCARDING,
            _I.RECEIVE_CLOSE: _C.CLOSE_RECEIVED,
        },
        _C.CLOSE_RECEIVED: {
            _I.SEND_OPEN: _C.CLOSE_RECEIVED,
            _I.SEND_CLOSE: _C.ENDED,
            _I.SEND_CLOSE_WITH_ERROR: _C.ENDED,
        },
        _C.CLOSE_SENT: {
            # A peer that sent its open before it saw the close, as this side did not wait for it.
            _I.RECEIVE_OPEN: _C.CLOSE_SENT,
            _I.RECEIVE_CLOSE: _C.ENDED,
        },
        _C.DISCARDING: {
            _I.RECEIVE_OPEN: _C.DISCARDING,
            _I.RECEIVE_CLOSE: _C.ENDED,
        },
    },
)

SESSION: Final = StateMachine(
    "the session",
    {
        _S.UNMAPPED: {
            _I.SEND_BEGIN: _S.BEGIN_SENT,
            _I.RECEIVE_BEGIN: _S.BEGIN_RECEIVED,
        },
        _S.BEGIN_SENT: {
            _I.RECEIVE_BEGIN: _S.MAPPED,
            _I.SEND_END: _S.END_SENT,
        },
        _S.BEGIN_RECEIVED: {
            _I.SEND_BEGIN: _S.MAPPED,
        },
        _S.MAPPED: {
            _I.SEND_END: _S.END_SENT,
            _I.SEND_END_WITH_ERROR: _S.DISCARDING,
            _I.RECEIVE_END: _S.END_RECEIVED,
        },
        _S.END_RECEIVED: {
            _I.SEND_END: _S.UNMAPPED,
        },
        _S.END_SENT: {
            _I.RECEIVE_BEGIN: _S.END_SENT,
            _I.RECEIVE_END: _S.UNMAPPED,
        },
        _S.DISCARDING: {
            _I.RECEIVE_END: _S.UNMAPPED,
        },
    },
)

LINK: Final = StateMachine(
    "the link",
    {
        _L.DETACHED: {
            _I.SEND_ATTACH: _L.ATTACH_SENT,
            _I.RECEIVE_ATTACH: _L.ATTACH_RECEIVED,
        },
        _L.ATTACH_SENT: {
            _I.RECEIVE_ATTACH: _L.ATTACHED,
            _I.SEND_DETACH: _L.DETACH_SENT,
        },
        _L.ATTACH_RECEIVED: {
            _I.SEND_ATTACH: _L.ATTACHED,
            # A peer may detach before it has seen the answer to its attach.
            _I.RECEIVE_DETACH: _L.DETACH_RECEIVED,
        },
        _L.ATTACHED: {
            _I.SEND_DETACH: _L.DETACH_SENT,
            _I.RECEIVE_DETACH: _L.DETACH_RECEIVED,
        },
        _L.DETACH_RECEIVED: {
            _I.SEND_ATTACH: _L.DETACH_RECEIVED,
            _I.SEND_DETACH: _L.ENDED,
        },
        _L.DETACH_SENT: {
            _I.RECEIVE_ATTACH: _L.DETACH_SENT,
            _I.RECEIVE_DETACH: _L.ENDED,
        },
    },
)
