"""The verbs of the pyjms profile by which data pipelines read and write: reader groups and staged units (`pyjms.spi.replay`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from pyjms.spi.envelope import Address
from pyjms.spi.replay import StageName
from pyjms_provider.protocols.stomp.verb_headers import (
    ADDRESS,
    FLAG,
    LONG,
    NUMBER,
    TEXT,
    WHOLE,
    Verb,
    form,
    header,
    verb,
)

__all__ = [
    "PIPELINE_VERBS",
    "AcknowledgeGroup",
    "DiscardUnits",
    "ListGroups",
    "ListUnits",
    "OpenReaderGroup",
    "PromoteEpoch",
    "ReadGroup",
    "ReadMarker",
    "ReleaseGroup",
    "ReserveMessages",
    "StageTransaction",
    "read_stage_name",
    "stage_name_row",
]


def stage_name_row(name: StageName) -> list[Any]:
    """Return a name as it stands in JSON."""
    return [name.sink, name.epoch, name.partition, name.attempt]


def read_stage_name(row: Any) -> StageName:
    """Return the name of `stage_name_row`. Raises `ValueError`."""
    if not (isinstance(row, list) and list(map(type, row)) == [str, int, int, str]):
        raise ValueError
    return StageName(*row)


def _write_units(units: Sequence[StageName]) -> str:
    return json.dumps([stage_name_row(name) for name in units], separators=(",", ":"))


def _read_units(text: str) -> tuple[StageName, ...]:
    try:
        rows = json.loads(text)
    except RecursionError as error:
        raise ValueError from error
    return tuple(map(read_stage_name, rows if isinstance(rows, list) else [rows]))


UNITS = form(_write_units, _read_units, 'units as JSON, [["sink",epoch,partition,"attempt"],…]')


@verb
class OpenReaderGroup(Verb):
    """`ReaderGroups.open`, `ProviderConnection.reader_groups`; the RECEIPT has the group and its fence (`GroupOpened`)."""

    COMMAND: ClassVar[str] = "GROUP"
    group: str = header("group", TEXT)
    address: Address = header("destination", ADDRESS)
    subscription: str | None = header("durable-subscription-name", TEXT, default=None)
    selector: str | None = header("selector", TEXT, default=None)


@verb
class ReserveMessages(Verb):
    """`ReaderGroups.reserve`; the RECEIPT has the highest number (`Reserved`)."""

    COMMAND: ClassVar[str] = "RESERVE"
    group: str = header("group", TEXT)
    generation: str = header("generation", TEXT)
    fence: int = header("fence", LONG)
    after: int = header("after", LONG)
    max_messages: int = header("max-messages", WHOLE)
    max_bytes: int | None = header("max-bytes", LONG, default=None)
    wait_ms: int = header("wait", WHOLE, default=0)


@verb
class ReadGroup(Verb):
    """`ReaderGroups.read`: a page of MESSAGE frames with `subscription` = `id`, and then the RECEIPT (`Page`).

    `packed`: the reader takes several messages in one frame, too (`pyjms_provider.protocols.stomp.packed`).
    """

    COMMAND: ClassVar[str] = "READ"
    group: str = header("group", TEXT)
    generation: str = header("generation", TEXT)
    id: str = header("id", TEXT)
    after: int = header("after", LONG)
    upto: int = header("upto", LONG)
    packed: bool = header("packed", FLAG, default=False)


@verb
class AcknowledgeGroup(Verb):
    """`ReaderGroups.acknowledge`."""

    COMMAND: ClassVar[str] = "SETTLE"
    group: str = header("group", TEXT)
    generation: str = header("generation", TEXT)
    fence: int = header("fence", LONG)
    upto: int = header("upto", LONG)


@verb
class ReleaseGroup(Verb):
    """`ReaderGroups.release`; the RECEIPT has how many messages went back (`Counted`)."""

    COMMAND: ClassVar[str] = "RELEASE"
    group: str = header("group", TEXT)


@verb
class ListGroups(Verb):
    """`ReaderGroups.groups`; the RECEIPT has them (`GroupsListed`)."""

    COMMAND: ClassVar[str] = "GROUPS"


@verb
class StageTransaction(Verb):
    """`ProviderSession.stage`; the RECEIPT has how many messages that were (`Counted`)."""

    COMMAND: ClassVar[str] = "STAGE"
    session: str = header("session", TEXT)
    sink: str = header("sink", TEXT)
    epoch: int = header("epoch", LONG)
    partition: int = header("partition", NUMBER)
    attempt: str = header("attempt", TEXT)
    keep_s: int = header("keep", WHOLE)


@verb
class PromoteEpoch(Verb):
    """`Stages.promote`, `ProviderConnection.stages`; the RECEIPT says whether it was done now (`Promoted`)."""

    COMMAND: ClassVar[str] = "PROMOTE"
    sink: str = header("sink", TEXT)
    epoch: int = header("epoch", LONG)
    units: Sequence[StageName] = header("units", UNITS, default=())


@verb
class DiscardUnits(Verb):
    """`Stages.discard`."""

    COMMAND: ClassVar[str] = "DISCARD"
    units: Sequence[StageName] = header("units", UNITS, default=())


@verb
class ReadMarker(Verb):
    """`Stages.marker`; the RECEIPT has it (`MarkerRead`)."""

    COMMAND: ClassVar[str] = "MARKER"
    sink: str = header("sink", TEXT)


@verb
class ListUnits(Verb):
    """`Stages.units`; the RECEIPT has them (`UnitsListed`)."""

    COMMAND: ClassVar[str] = "UNITS"
    sink: str | None = header("sink", TEXT, default=None)


PIPELINE_VERBS: tuple[type[Verb], ...] = (
    OpenReaderGroup, ReserveMessages, ReadGroup, AcknowledgeGroup, ReleaseGroup, ListGroups,
    StageTransaction, PromoteEpoch, DiscardUnits, ReadMarker, ListUnits,
)  # fmt: skip
"""All of them."""
