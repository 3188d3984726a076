"""Reading one range of a reader group, on any executor and as often as Spark likes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from pyjms.spark.connecting import link_of
from pyjms.spark.options import JmsOptions
from pyjms.spi.envelope import content_size
from pyjms.spi.replay import ReservedMessage

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


# One page ahead: the next page is fetched while the present one is turned into columns.
#
# The broker and the task would otherwise wait for each other in turn. Never more than one page waits, so that memory stays bounded.

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


BATCH_MESSAGES = 5_000
_BATCH_BYTES = 8 * 1024 * 1024
_MESSAGE_BYTES = 500
"""What a message takes beside its body and properties, roughly."""

Page = Sequence[ReservedMessage]


def pages_of_group(options: JmsOptions, group: str, generation: str, after: int, upto: int) -> Iterator[Page]:
    """Yield the messages from ``after + 1`` to `upto`. Raises `GroupError` when they are not there any more."""
    link = link_of(options)
    while after < upto:
        page = link.call(_page(group, generation, after, upto))
        yield page
        after = page[-1].number


def _page(group: str, generation: str, after: int, upto: int) -> Callable[[Any], Page]:
    return lambda connection: connection.reader_groups().read(group, generation, after=after, upto=upto)


def rows(pages: Iterable[Page], schema: StructType, options: JmsOptions) -> Iterator[Any]:
    """Yield what Spark takes from a reader: record batches; with ``arrow=false`` tuples, which are slower."""
    from pyjms.spark.arrow import arrow_schema, record_batch, tuples

    wanted = arrow_schema(schema)
    for batch in in_batches(pages):
        if options.arrow:
            yield record_batch(batch, wanted, with_bodies=options.with_bodies)
        else:
            yield from tuples(batch, wanted.names, with_bodies=options.with_bodies)


def in_batches(pages: Iterable[Page]) -> Iterator[list[ReservedMessage]]:
    """Yield the messages of pages in pieces of a size that Arrow likes, none of them empty."""
    batch: list[ReservedMessage] = []
    size = 0
    for page in pages:
        for message in page:
            batch.append(message)
            size += _MESSAGE_BYTES + content_size(message.envelope)
            if len(batch) >= BATCH_MESSAGES or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch
