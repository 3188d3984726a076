"""A session's transaction at the broker: begun with its first send or acknowledgement, in one epoch, ended once."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from pyjms.spi.errors import InDoubtError, ProviderError, ResourceError, RolledBackError
from pyjms_provider.clients.stomp.epoch import Epoch, InterruptedLinkError, Said, UnansweredError, lost_while_ended
from pyjms_provider.protocols.stomp.frames import Frame

if TYPE_CHECKING:
    from pyjms_provider.clients.stomp.held_message import HeldMessage

__all__ = ["Transaction"]

_log = logging.getLogger("pyjms.stomp")


class Transaction:
    """One thread at a time, except `doom`."""

    def __init__(self, name: str, epoch: Epoch) -> None:
        """Begin. Raises `InterruptedLinkError`."""
        self.name = name
        self.epoch = epoch
        self.acknowledged: list[HeldMessage] = []
        """What its commit settles."""
        self._commit = Said()
        self._is_refused = False
        """Whether the broker has answered COMMIT by an error."""
        self._abort = Said()
        self._failure: str | None = None
        epoch.post(Frame("BEGIN", {"transaction": name}))

    def doom(self, reason: str) -> None:
        """Let it end in a rollback only. Any thread."""
        self._failure = self._failure or reason

    @property
    def failure(self) -> str | None:
        """Why it can only be rolled back; None: it may commit."""
        if self.epoch.has_ended:
            return self._failure or f"the connection was lost meanwhile: {self.epoch.reason}"
        return self._failure

    @property
    def has_committed(self) -> bool:
        """Whether COMMIT was said, and not refused as far as is known: what was acknowledged in it is settled then."""
        return self._commit.is_said and not self._is_refused

    @property
    def has_ended(self) -> bool:
        """Whether COMMIT or ABORT was said: nothing more can be said in it."""
        return self._commit.is_said or self._abort.is_said

    def check(self) -> None:
        """Raise `RolledBackError` if it can only be rolled back: more work in it would be lost."""
        if self.failure is not None:
            raise RolledBackError(f"the transaction was rolled back: {self.failure}")

    def commit(self) -> None:
        """Commit. Raises `RolledBackError`, `InDoubtError`."""
        if self._commit.is_said:
            raise InDoubtError(
                "a signal interrupted the commit of the transaction: it is not known whether that was done"
            )
        self._prepare()
        try:
            self.epoch.ask(Frame("COMMIT", {"transaction": self.name}), said=self._commit)
        except (InterruptedLinkError, UnansweredError) as error:
            raise lost_while_ended(error, "committed") from error
        except ResourceError as error:
            self._is_refused = True
            raise lost_while_ended(error, "committed") from error
        except InDoubtError:
            raise
        except ProviderError as error:
            self._is_refused = True
            raise RolledBackError(f"the transaction was rolled back: {error.reason}") from error

    def _prepare(self) -> None:
        """See to it that nothing is in the way of COMMIT. Raises `RolledBackError`."""
        try:
            flush(self.epoch)  # so that an ERROR for one of its frames is here before COMMIT is written
            if self.failure is not None:
                self.abort()
                self.check()
        except InterruptedLinkError as error:
            raise RolledBackError(f"the transaction was rolled back: the connection was lost: {error}") from error
        except ResourceError as error:
            self.abort()
            raise RolledBackError(f"the transaction was rolled back: {error.reason}") from error

    def abort(self) -> None:
        """Roll back, if the broker has not done so by itself, and if its end was not said before."""
        if self.epoch.has_ended or self.has_ended:
            return
        with suppress(InterruptedLinkError):
            try:
                self.epoch.ask_last(Frame("ABORT", {"transaction": self.name}), said=self._abort)
            except ProviderError as error:
                _log.warning("PYJMS-STOMP the broker did not roll back a transaction: %s", error.reason)


def flush(epoch: Epoch) -> None:
    """Wait until the broker has done all that was sent: a transaction without work, the one thing STOMP offers for that.

    Raises `InterruptedLinkError`, `ResourceError`.
    """
    headers = {"transaction": "flush"}
    epoch.ask(Frame("BEGIN", headers), Frame("ABORT", dict(headers)))
