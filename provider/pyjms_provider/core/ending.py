"""How a queue or a durable subscription ends that a journal keeps (decision 0137).

It is there, for everybody and as it was, until its end is written: what is sent to it is written too, what is acknowledged
is removed, and goes with the rest if the end is written. A refusal therefore changes nothing. If nobody knows whether the
end was written, or the thread that wrote it was interrupted, it ends nevertheless, and the journal hears of it again before
anything else is written. So at no moment is something there that the store does not keep, or will not keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spi.errors import InDoubtError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_provider.core.keeping import Keeper
    from pyjms_provider.core.queue import Queue

__all__ = ["end_when_written", "is_refusal"]


def is_refusal(error: BaseException) -> bool:
    """Return whether an error of a journal says that nothing was written."""
    return isinstance(error, ProviderError) and not isinstance(error, InDoubtError)


def end_when_written(queue: Queue, keeper: Keeper | None, forget: Callable[[], None]) -> None:
    """Have it written that a queue or a subscription ends, and end it; `forget` takes it out of its host's tables.

    Waits for the journal; the caller keeps others away who would end or alter it. Raises `ResourceError`: then all is as
    it was; after any other error it has ended.
    """
    is_refused = False
    try:
        if keeper is not None and queue.kept is not None:
            keeper.drop(queue.kept)
    except BaseException as error:
        is_refused = is_refusal(error)
        raise
    finally:
        if not is_refused:
            forget()
            queue.kept = None  # the journal knows that all of it is gone
            queue.close()
