"""Writing one partition, and making an epoch visible, apart from Spark: by staged units, or by plain transactions.

Exactly once is *stage, then promote*: each partition is made safe under a name and stays invisible; one call then makes all of an epoch
visible and moves the sink's marker, so that a repeated epoch does nothing. The other ways promise less (`pyjms.spark.branches` has the third);
docs/reference/spark.md says what.
"""

from __future__ import annotations

import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyjms.forwarding.marks import readdressed
from pyjms.spark.connecting import Link
from pyjms.spark.contents import Content, note, noted, together
from pyjms.spark.options import JmsOptions
from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ClosedError, ConnectionLostError, InDoubtError, StageError
from pyjms.spi.provider import ProviderConnection
from pyjms.spi.replay import StageName

__all__ = ["SOURCE_PROPERTY", "Staging", "Transactions", "Way", "Written", "attempt_of", "marked"]

_log = logging.getLogger(__name__)
_RUN_MAX = 64
"""An attempt has 100 characters at most."""

SOURCE_PROPERTY = "JMS_pyjms_src"
"""Says ``sink:epoch:partition:row`` on messages whose sink may write them twice: by it a reader can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one task tells the one that commits."""

    name: StageName
    way: str
    """Which way it was written: ``stage``, ``xa`` or ``transaction``."""
    messages: int
    waits: bool
    """Whether there is something that waits under the name; else it was empty, or is visible already."""
    expired: int = 0
    """How many rows were left out, as their time to live was over."""
    content: Content | None = None
    """What the rows were, those left out too; None: it is not to be compared."""


def attempt_of(run: str | None) -> str:
    """Return the name of an attempt that nobody else has, and that says which run of a query, or which writer of a table, makes it.

    None: it is not known, and nothing of other runs is ended then.
    """
    own = uuid.uuid4().hex
    return own if run is None else f"{run[:_RUN_MAX]}.{own}"


def _run_of(attempt: str) -> str | None:
    run, dot, _ = attempt.rpartition(".")
    return run if dot else None


class Way(ABC):
    """One way of writing."""

    @abstractmethod
    def write(
        self, connection: ProviderConnection, name: StageName, envelopes: Iterable[Envelope], options: JmsOptions
    ) -> Written:
        """Write a partition. What fails leaves nothing that anybody sees, but as the way's guarantee says."""

    @abstractmethod
    def finish(self, link: Link, sink: str, epoch: int, written: Sequence[Written]) -> None:
        """Make an epoch visible. May be called again."""

    @abstractmethod
    def abandon(self, link: Link, written: Sequence[Written]) -> None:
        """Drop what waits; harmless after `finish`."""


def _marked(name: StageName, row: int, envelope: Envelope) -> Envelope:
    properties = {**envelope.properties, SOURCE_PROPERTY: f"{name.sink}:{name.epoch}:{name.partition}:{row}"}
    return readdressed(envelope, envelope.destination, properties, envelope.reply_to)


def marked(name: StageName, envelopes: Iterable[Envelope]) -> Iterable[Envelope]:
    """Yield messages that say where they come from."""
    return (_marked(name, row, envelope) for row, envelope in enumerate(envelopes))


class Staging(Way):
    """Staged units: exactly once."""

    def write(
        self, connection: ProviderConnection, name: StageName, envelopes: Iterable[Envelope], options: JmsOptions
    ) -> Written:
        marker = connection.stages().marker(name.sink)
        if marker is not None and marker >= name.epoch:
            return self._repeated(marker, name, envelopes)
        self._end_former_runs(connection, name)
        session = connection.open_session(transacted=True)
        try:
            count = 0
            for envelope in envelopes:
                session.send(envelope)
                count += 1
            if count:
                session.stage(name, keep_s=options.stage_timeout_s)
        finally:
            with suppress(ClosedError, ConnectionLostError):
                session.close()
        return Written(name=name, way="stage", messages=count, waits=count > 0)

    @staticmethod
    def _end_former_runs(connection: ProviderConnection, name: StageName) -> None:
        """Discard what runs before this one staged and never promoted: it takes the room of a queue with a limit, which may be all there is.

        Should such a run be alive after all, it cannot promote what is gone, and breaks off: nothing is written twice.
        """
        run = _run_of(name.attempt)
        if run is None:
            return
        stages = connection.stages()
        waiting = [unit.name for unit in stages.units(name.sink)]
        former = [each for each in waiting if each.epoch <= name.epoch and _run_of(each.attempt) != run]
        if former:
            # nobody answered when they were promoted: our promotion finishes that one first
            with suppress(InDoubtError):
                stages.discard(former)

    @staticmethod
    def _repeated(marker: int, name: StageName, envelopes: Iterable[Envelope]) -> Written:
        if marker == name.epoch:  # the driver died after it had promoted this epoch, and before Spark knew
            for _ in envelopes:
                pass  # `finish` looks whether they are those that were promoted
            return Written(name=name, way="stage", messages=0, waits=False)
        raise StageError(
            f"sink {name.sink!r} has come to epoch {marker}, and this is epoch {name.epoch}, which was written before it: number "
            "what is new on, or give it a new sinkId. If it is a query's, its checkpoint is an old copy: start it with a new checkpoint"
        )

    def finish(self, link: Link, sink: str, epoch: int, written: Sequence[Written]) -> None:
        units = sorted(each.name for each in written if each.waits)
        is_new = link.call(lambda connection: connection.stages().promote(sink, epoch, units))
        if not is_new and units:
            link.call(lambda connection: connection.stages().discard(units))
        content = together([each.content for each in written])
        if content is None:
            return
        if not is_new and content.rows:
            # nothing is lost of an epoch that comes again without rows, as of `mode=at-least-once`
            before = link.call(lambda connection: noted(connection.stages(), sink, epoch))
            if before is not None and before != content.mark:
                raise StageError(_other_rows(sink, epoch))
        link.call(lambda connection: note(connection.stages(), sink, epoch, content.mark))

    def abandon(self, link: Link, written: Sequence[Written]) -> None:
        units = [each.name for each in written]
        if units:
            link.call(lambda connection: connection.stages().discard(units))


def _other_rows(sink: str, epoch: int) -> str:
    return (
        f"sink {sink!r} has written epoch {epoch} already, with other rows, and nothing of these. If it is a query's, its checkpoint is an old copy: "
        "start it with a new checkpoint, which loses nothing; the batch that was under way comes again. A table needs a new jobId, or the next "
        "epoch. If it is the same batch, and its rows only came out in another way (a clock, random numbers, another program), have them come out "
        "as before, or write it with repeated=trust, once"
    )


class Transactions(Way):
    """One transaction a partition: at least once, and each message says which row it was."""

    def write(
        self, connection: ProviderConnection, name: StageName, envelopes: Iterable[Envelope], options: JmsOptions
    ) -> Written:
        _log.warning(
            "%s can neither stage nor prepare: rows are written at least once; %s tells repeated ones",
            connection.info.name,
            SOURCE_PROPERTY,
        )
        session = connection.open_session(transacted=True)
        try:
            count = 0
            for envelope in marked(name, envelopes):
                session.send(envelope)
                count += 1
            session.commit()
        finally:
            with suppress(ClosedError, ConnectionLostError):
                session.close()
        return Written(name=name, way="transaction", messages=count, waits=False)

    def finish(self, link: Link, sink: str, epoch: int, written: Sequence[Written]) -> None:
        """Do nothing: each task has committed its own."""

    def abandon(self, link: Link, written: Sequence[Written]) -> None:
        """Do nothing: what was committed is visible."""
