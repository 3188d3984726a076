"""One page ahead: the next page is fetched while the present one is turned into columns.

The broker and the task would otherwise wait for each other in turn. Never more than one page waits, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["one_ahead"]

_T = TypeVar("_T")


def one_ahead(pages: Iterable[_T]) -> Iterator[_T]:
    """Yield `pages`; each is asked for, on a thread of its own, when the one before it is handed out. Raises what they raise.

    Who stops in the middle waits for nobody: the page that is under way is dropped when it is there, which the connection's own time-out limits.
    """
    source = iter(pages)
    pool = ThreadPoolExecutor(1, "pyjms page")

    def ask() -> Future[list[_T]]:
        return pool.submit(lambda: list(islice(source, 1)))

    try:
        coming = ask()
        while found := coming.result():
            coming = ask()
            yield found[0]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
