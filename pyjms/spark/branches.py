"""Writing by XA, where a message system can prepare but not stage: one prepared branch a partition.

Each branch also holds one message of the *ledger*, a queue of the sink's own, that says which epoch and partition it is. An epoch that
is repeated finds there which of its partitions are visible. So rows come twice only when the driver dies between the commits of two
branches *and* the repetition cuts the rows in another way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from pyjms.spark.connecting import Link
from pyjms.spark.options import JmsOptions
from pyjms.spark.writing import Way, Written, marked
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope
from pyjms.spi.errors import BranchError, ClosedError, ConnectionLostError
from pyjms.spi.provider import ProviderConnection, ProviderSession, SubscribeRequest
from pyjms.spi.replay import StageName
from pyjms.spi.selector import compile_selector
from pyjms.spi.xid import BranchFailure, Xid
from pyjms.types import Long

__all__ = ["Branches", "ledger_of"]

_FORMAT = 0x4A4D5350
_EPOCH, _PARTITION = "sinkEpoch", "sinkPartition"
_PERSISTENT, _PRIORITY = 2, 4


def ledger_of(sink: str) -> Address:
    """Return the queue that says what a sink has made visible."""
    return Address(AddressKind.QUEUE, f"pyjms.spark.ledger.{sink}")


def _xid(name: StageName) -> Xid:
    return Xid(_FORMAT, _transaction(name.sink, name.epoch), f"{name.partition}:{name.attempt}".encode()[:64])


def _transaction(sink: str, epoch: int) -> bytes:
    return hashlib.sha256(f"{sink}:{epoch}".encode("utf-8", "surrogatepass")).digest()


class Branches(Way):
    """Prepared branches, and a ledger of those that are visible."""

    def write(
        self, connection: ProviderConnection, name: StageName, envelopes: Iterable[Envelope], options: JmsOptions
    ) -> Written:
        session = connection.open_session(transacted=True)
        try:
            if (name.epoch, name.partition) in _visible(session, name.sink):
                return Written(name=name, way="xa", messages=0, waits=False)
            xid = _xid(name)
            session.xa_start(xid)
            count = 0
            for envelope in marked(name, envelopes):
                session.send(envelope)
                count += 1
            session.send(_ledger_entry(name))
            session.xa_end(xid)
            session.xa_prepare(xid)
        finally:
            _close(session)
        return Written(name=name, way="xa", messages=count, waits=True)

    def finish(self, link: Link, sink: str, epoch: int, written: Sequence[Written]) -> None:
        link.call(lambda connection: self._finish(connection, sink, epoch, written))

    def _finish(self, connection: ProviderConnection, sink: str, epoch: int, written: Sequence[Written]) -> None:
        ours = [_xid(each.name) for each in sorted(written, key=lambda each: each.name) if each.waits]
        session = connection.open_session(transacted=True)
        try:
            of_this_epoch = _transaction(sink, epoch)
            for xid in session.xa_recover():
                if xid.global_transaction_id == of_this_epoch and xid not in ours:
                    _settled(session.xa_rollback, xid)  # of an attempt that failed, or of a driver that died
            for xid in ours:
                _settled(session.xa_commit, xid)
        finally:
            _close(session)
        _prune(connection, sink, epoch)

    def abandon(self, link: Link, written: Sequence[Written]) -> None:
        def roll_back(connection: ProviderConnection) -> None:
            session = connection.open_session(transacted=True)
            try:
                for each in written:
                    _settled(session.xa_rollback, _xid(each.name))
            finally:
                _close(session)

        if written:
            link.call(roll_back)


def _settled(settle: Callable[[Xid], None], xid: Xid) -> None:
    """Settle a branch; one that is not there any more was settled before."""
    try:
        settle(xid)
    except BranchError as error:
        if error.failure is not BranchFailure.UNKNOWN:
            raise


def _close(session: ProviderSession) -> None:
    with suppress(ClosedError, ConnectionLostError):
        session.close()


def _ledger_entry(name: StageName) -> Envelope:
    properties = {_EPOCH: Long(name.epoch), _PARTITION: name.partition}
    address = ledger_of(name.sink)
    return Envelope(address, None, 0, 0, _PERSISTENT, _PRIORITY, None, None, None, properties, BodyKind.NONE, None)


def _visible(session: ProviderSession, sink: str) -> set[tuple[int, int]]:
    """Return epoch and partition of what the ledger has."""
    found = set()
    for delivery in session.browse(ledger_of(sink), None):
        entry = delivery.envelope.properties
        found.add((int(entry[_EPOCH] or 0), int(entry[_PARTITION] or 0)))
    return found


def _prune(connection: ProviderConnection, sink: str, epoch: int) -> None:
    """Take what tells of epochs before `epoch` off the ledger: Spark never repeats those."""
    connection.start()
    session = connection.open_session(transacted=False)
    try:
        older = SubscribeRequest(
            address=ledger_of(sink),
            selector=compile_selector(f"{_EPOCH} < {epoch}"),
            no_local=False,
            durable_name=None,
        )
        consumer = session.subscribe(older, lambda: None)
        consumer.catch_up()
        while (delivery := consumer.poll()) is not None:
            session.acknowledge((delivery,))
            consumer.catch_up()
    finally:
        _close(session)
