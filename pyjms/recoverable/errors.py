"""What may go wrong with recoverable requests beyond what JMS names."""

from __future__ import annotations

from pyjms.errors import IllegalStateException, JMSException


class RecoveryNeededException(IllegalStateException):
    """An earlier request is not settled, or it is not known whether it is: call `RecoverableRequestor.recover` first."""


class SessionTakenException(JMSException):
    """Another program has registered under the same name since; there can be one at a time."""


class ClientLogException(JMSException):
    """The client's log and the register at the broker do not belong together, or the log cannot be read."""
