"""Which way a partition is written and an epoch made visible: the best that the message system has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pyjms.spark.branches import Branches
from pyjms.spark.connecting import link_of, require
from pyjms.spark.options import JmsOptions
from pyjms.spark.writing import Staging, Transactions, Way, Written
from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ClosedError, ConnectionLostError, ProviderError
from pyjms.spi.provider import ProviderConnection
from pyjms.spi.replay import StageName

__all__ = ["WAYS", "abandon", "finish", "way_of", "write_partition"]

_log = logging.getLogger(__name__)

WAYS: Mapping[str, Way] = {"stage": Staging(), "xa": Branches(), "transaction": Transactions()}


class _Living:
    """Messages without those whose time to live is over (JMS 1.1 §3.4.9): a transaction with one of them could never be committed."""

    def __init__(self, envelopes: Iterable[Envelope], now_ms: Callable[[], int]) -> None:
        self._envelopes = envelopes
        self._now_ms = now_ms
        self.expired = 0

    def __iter__(self) -> Iterator[Envelope]:
        for envelope in self._envelopes:
            if 0 < envelope.expiration_ms <= self._now_ms():
                self.expired += 1
            else:
                yield envelope


def write_partition(
    name: StageName, envelopes_of: Callable[[ProviderConnection], Iterable[Envelope]], options: JmsOptions
) -> Written:
    """Write one partition in the best way that the message system has; leave out rows whose time to live is over.

    envelopes_of: makes the messages, given the connection. Raises `ProviderError`: Spark then tries the task again.
    """
    link = link_of(options)
    connection = link.call(lambda opened: opened)
    try:
        living = _Living(envelopes_of(connection), link.clock.time_ms)
        written = WAYS[way_of(connection)].write(connection, name, living, options)
        return replace(written, expired=living.expired)
    except (ClosedError, ConnectionLostError):
        link.forget(connection)
        raise


def way_of(connection: ProviderConnection) -> str:
    """Return the best of `WAYS` that a connection can go. Raises `CapabilityError`."""
    if Capability.STAGE in connection.capabilities:
        return "stage"
    if Capability.XA | Capability.BROWSING in connection.capabilities:
        return "xa"
    require(connection, Capability.TRANSACTIONS, 'the sink of format("jms") needs at least transactions')
    return "transaction"


def finish(sink: str, epoch: int, written: Sequence[Written], options: JmsOptions) -> None:
    """Make all of an epoch visible; may be called again. Raises `ProviderError`: nothing of a staged epoch is visible then."""
    for way in {each.way for each in written}:
        WAYS[way].finish(link_of(options), sink, epoch, [each for each in written if each.way == way])
    expired = sum(each.expired for each in written)
    if expired:
        _log.warning(
            "epoch %d of sink %r was written without %d messages whose time to live was over", epoch, sink, expired
        )


def abandon(written: Sequence[Written], options: JmsOptions) -> None:
    """Drop what waits. What cannot be dropped now is dropped by a later epoch, or when its time is over."""
    for way in {each.way for each in written}:
        try:
            WAYS[way].abandon(link_of(options), [each for each in written if each.way == way and each.waits])
        except ProviderError as error:
            _log.warning("what an epoch had prepared is left to its timeout: %s", error.reason)
