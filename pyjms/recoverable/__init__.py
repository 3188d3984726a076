"""Requests and replies that survive the death of client, server and broker (lecture on message-oriented systems).

A request with its reply is three transactions: the client enqueues the request; the server dequeues it, works and
enqueues the reply; the client dequeues the reply. After any crash between or within them,
`RecoverableRequestor.recover` determines which of the four states A to D holds, and acts accordingly. Any provider with
transactions will do.
"""

from pyjms.recoverable.client_log import (
    ClientLog,
    ClientLogException,
    LogEntry,
    RecoveryNeededException,
    SessionTakenException,
    State,
)
from pyjms.recoverable.persistent_session import PersistentSession
from pyjms.recoverable.requestor import Device, RecoverableRequestor, Recovery, Reply
from pyjms.recoverable.server import RecoverableServer, Unit

__all__ = [
    "ClientLog",
    "ClientLogException",
    "Device",
    "LogEntry",
    "PersistentSession",
    "RecoverableRequestor",
    "RecoverableServer",
    "Recovery",
    "RecoveryNeededException",
    "Reply",
    "SessionTakenException",
    "State",
    "Unit",
]
