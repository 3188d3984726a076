"""A session's transaction at the broker: begun with its first send or acknowledgement, in one epoch, ended once."""

from __future__ import annotations

import logging
from contextlib import suppress

from pyjms.spi.errors import InDoubtError, ProviderError, ResourceError, RolledBackError
from pyjms_provider.clients.stomp.epoch import Epoch, InterruptedLinkError, UnsentLinkError
from pyjms_provider.clients.stomp.held_message import HeldMessage
from pyjms_provider.protocols.stomp.frames import Frame

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

    def check(self) -> None:
        """Raise `RolledBackError` if it can only be rolled back: more work in it would be lost."""
        if self.failure is not None:
            raise RolledBackError(f"the transaction was rolled back: {self.failure}")

    def commit(self) -> None:
        """Commit. Raises `RolledBackError`, `InDoubtError`."""
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
        try:
            self.epoch.ask(Frame("COMMIT", {"transaction": self.name}))
        except UnsentLinkError as error:
            raise RolledBackError(f"the transaction was rolled back: the connection was lost: {error}") from error
        except (InterruptedLinkError, ResourceError) as error:
            raise InDoubtError(
                f"the broker did not answer COMMIT ({error}): it is not known whether the transaction was committed"
            ) from error
        except ProviderError as error:
            raise RolledBackError(f"the transaction was rolled back: {error.reason}") from error

    def abort(self) -> None:
        """Roll back, if the broker has not done so by itself."""
        if self.epoch.has_ended:
            return
        with suppress(InterruptedLinkError):
            try:
                self.epoch.ask_last(Frame("ABORT", {"transaction": self.name}))
            except ProviderError as error:
                _log.warning("PYJMS-STOMP the broker did not roll back a transaction: %s", error.reason)


def flush(epoch: Epoch) -> None:
    """Wait until the broker has done all that was sent: a transaction without work, the one thing STOMP offers for that.

    Raises `InterruptedLinkError`, `ResourceError`.
    """
    headers = {"transaction": "flush"}
    epoch.ask(Frame("BEGIN", headers), Frame("ABORT", dict(headers)))
