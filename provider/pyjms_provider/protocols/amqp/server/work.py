"""The work of sessions: what may wait, and what follows on the connection's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyjms_provider.protocols.scheduling import TASK_SIZE

if TYPE_CHECKING:
    from pyjms_provider.protocols.engine import BatchJob, RemoteJob


@dataclass(slots=True)
class Work:
    """A piece of a session's work: what may wait, and what follows on the connection's thread."""

    do: Callable[[], None]
    """Does it, on any thread. Raises `ProviderError` and `AmqpError`."""
    done: Callable[[Exception | None], None]
    """Answers the client, on the connection's thread: called with the error of `do`, or None."""
    may_wait: bool = False
    is_brief: bool = False
    """Whether it waits for a local disk at most."""
    batch: BatchJob | None = None
    """How it is done together with work of other connections."""
    is_patient: bool = False
    """Whether it may wait for other clients without a limit."""
    content_bytes: int = 0
    """About how many bytes its messages have."""
    remote: RemoteJob | None = None
    """How another process does it."""

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return self.content_bytes + TASK_SIZE


def do_all(steps: Iterable[Callable[[], None]]) -> None:
    """Take all steps, whichever fail; then raise the first error."""
    first: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first


def nothing(error: Exception | None = None) -> None:
    """Do nothing, before or after a piece of work."""
