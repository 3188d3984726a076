"""The commands that a pyjms client and the pyjms broker have beyond a protocol, as data.

Each command is one class, which both sides use: `Command.headers` writes it, `read_command` parses its name and headers. Over STOMP a
command is a frame and its answer a RECEIPT (`pyjms_provider.protocols.stomp.command_frames`). What the answers say is in `answers`.
docs/reference/stomp.md specifies what each command does; each docstring names its call of the SPI.

The broker numbers the deliveries of a connection from 1, one by one, so deliveries that are settled together are mostly a few ranges,
written as ``1-5,7,9-12``. They stay ranges in memory: a short header may name a billion numbers. `named` looks them up in time proportional
to the number of ranges and of open deliveries, not to the length of the ranges.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from heapq import heappop, heappush
from itertools import chain
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError
from pyjms.spi.replay import StageName
from pyjms.spi.xid import Xid
from pyjms_provider.protocols.profile.errors import CommandError
from pyjms_provider.protocols.profile.paths import EXACT_PATHS

DeliveryIds: TypeAlias = tuple[range, ...]
"""In the order of the header; each range goes upwards and is not empty."""

RANGES_MAX = 50_000
"""The most ranges of a header: more than the gaps of any real settlement, and parsed in a twentieth of a second."""

_HIGHEST = 2**63 - 1
_one = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?").fullmatch


def delivery_ids(numbers: Iterable[int]) -> DeliveryIds:
    """Return `numbers` as ranges, in the same order."""
    ranges: list[range] = []
    first = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            ranges.append(range(first, last + 1))
        first = last = number
    if first is not None and last is not None:
        ranges.append(range(first, last + 1))
    return tuple(ranges)


def write_delivery_ids(ids: DeliveryIds) -> str:
    """Return the header's value."""
    return ",".join([str(ids[0]) if len(ids) == 1 else f"{ids[0]}-{ids[-1]}" for ids in ids])


def read_delivery_ids(text: str) -> DeliveryIds:
    """Return the ranges in the header's value. Raises `CommandError`."""
    # At most one part too many: a longer header is refused without being split further.
    parts = text.split(",", RANGES_MAX)
    if len(parts) > RANGES_MAX:
        raise CommandError(f"a header names at most {RANGES_MAX:,} ranges of delivery ids: settle fewer at once")
    ranges = []
    for part in parts:
        found = _one(part)
        if found is None:
            raise CommandError("delivery ids are numbers and ranges, such as 1-5,7,9-12")
        first = int(found[1])
        last = int(found[2]) if found[2] else first
        if not 0 < first <= last <= _HIGHEST:
            raise CommandError("delivery ids are numbers from 1, and ranges go upwards, such as 1-5,7,9-12")
        ranges.append(range(first, last + 1))
    return tuple(ranges)


def named(ids: DeliveryIds, numbers: Collection[int]) -> list[int]:
    """Return the `numbers` that `ids` names, in the order of `ids`, each once, at its first place."""
    # A header of some bytes may name a billion numbers: the loop is limited by the number of open deliveries.
    if sum(map(len, ids)) <= len(numbers):
        return [number for number in dict.fromkeys(chain.from_iterable(ids)) if number in numbers]
    later_places = sorted(range(len(ids)), key=lambda place: ids[place].start, reverse=True)
    # A heap of places in `ids`, the first on top; the place of a finished range is popped when it reaches the top.
    open_places: list[int] = []
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        while later_places and ids[later_places[-1]].start <= number:
            heappush(open_places, later_places.pop())
        while open_places and ids[open_places[0]].stop <= number:
            heappop(open_places)
        if open_places:
            found.append((open_places[0], number))
    return [number for _, number in sorted(found)]


_number = re.compile(r"-?[0-9]{1,10}").fullmatch
_long = re.compile(r"[0-9]{1,19}").fullmatch
_NO_HEADER = re.compile("[\0\ud800-\udfff]")


def readable(text: str) -> str:
    """Return `text` for a header, with characters replaced that none can carry. For people, not for programs."""
    return _NO_HEADER.sub("�", text)


@dataclass(frozen=True, slots=True)
class _Form:
    """Converts a value to the text of a header, and back; `read` raises `ValueError`."""

    write: Callable[[Any], str]
    read: Callable[[str], Any]
    meant: str


def _read_number(text: str) -> int:
    if not _number(text):
        raise ValueError
    return int(text)


def _read_whole(text: str) -> int:
    if not _number(text) or text.startswith("-"):
        raise ValueError
    return int(text)


def _read_long(text: str) -> int:
    if not _long(text) or int(text) >= 2**63:
        raise ValueError
    return int(text)


def _read_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _read_address(text: str) -> Address:
    try:
        return EXACT_PATHS.read({"destination": text})
    except DestinationError as error:
        raise ValueError from error


def _read_text(text: str) -> str:
    if not text:
        raise ValueError
    return text


TEXT = _Form(str, _read_text, "a text")
WORDS = _Form(readable, _read_text, "a text")
NUMBER = _Form(str, _read_number, "a number")
WHOLE = _Form(str, _read_whole, "a number from 0")
LONG = _Form(str, _read_long, "a number from 0")
FLAG = _Form(lambda value: "true" if value else "false", _read_flag, "true or false")
ADDRESS = _Form(EXACT_PATHS.write_reply_to, _read_address, "a destination such as /queue/orders")
KIND = _Form(lambda kind: str(kind.name.lower()), lambda text: AddressKind[text.upper()], "queue or topic")
XID = _Form(str, Xid.parse, "a branch, FORMAT:GLOBAL:BRANCH, the last two in hexadecimal")
IDS = _Form(write_delivery_ids, read_delivery_ids, "delivery ids such as 1-5,7")


def form(write: Callable[[Any], str], read: Callable[[str], Any], meant: str) -> _Form:
    """Return a new form; `read` raises `ValueError`."""
    return _Form(write, read, meant)


def choice(values: type[Enum]) -> _Form:
    """Return the form of a member of an enumeration: its value."""
    return _Form(lambda value: str(value.value), values, "one of " + ", ".join(str(each.value) for each in values))


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    header: str
    form: _Form
    default: Any


def header(name: str, form: _Form, *, default: Any = MISSING) -> Any:
    """Declare a field for header `name`; a field at its default is not written."""
    return field(default=default, metadata={"header": name, "form": form})


_V = TypeVar("_V")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(header,))
def command(cls: type[_V]) -> type[_V]:
    """Make `cls` a frozen record of the fields that it declares with `header`."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


_known_places: dict[type, tuple[_Place, ...]] = {}


def _places(kind: type[Command]) -> tuple[_Place, ...]:
    known = _known_places.get(kind)
    if known is None:
        known = _known_places[kind] = tuple(
            _Place(each.name, each.metadata["header"], each.metadata["form"], each.default) for each in fields(kind)
        )
    return known


@dataclass(frozen=True, slots=True)
class Command:
    """One command with its headers."""

    COMMAND: ClassVar[str]
    MARK: ClassVar[tuple[str, str | None] | None] = None
    """A header, with a certain value or any, that distinguishes it from other classes of the same command."""

    def headers(self) -> dict[str, str]:
        """Return its headers, from which `from_headers` rebuilds it."""
        headers: dict[str, str] = {}
        if self.MARK is not None and self.MARK[1] is not None:
            headers[self.MARK[0]] = self.MARK[1]
        for place in _places(type(self)):
            value = getattr(self, place.name)
            if value != place.default:
                headers[place.header] = place.form.write(value)
        return headers

    @classmethod
    def from_headers(cls, name: str, headers: Mapping[str, str]) -> Self:
        """Return the command of the name `name` with `headers`; others are ignored. Raises `CommandError`."""
        values = {}
        for place in _places(cls):
            text = headers.get(place.header)
            if text is None:
                if place.default is MISSING:
                    raise CommandError(f"{name} needs the header {place.header}: {place.form.meant}")
                continue
            try:
                values[place.name] = place.form.read(text)
            except (ValueError, KeyError, CommandError):
                raise CommandError(f"the header {place.header} of {name} must be {place.form.meant}") from None
        return cls(**values)


def stage_name_row(name: StageName) -> list[Any]:
    """Return a name as a JSON row."""
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
        # JSON that is nested too deeply.
        raise ValueError from error
    return tuple(map(read_stage_name, rows if isinstance(rows, list) else [rows]))


UNITS = form(_write_units, _read_units, 'units as JSON, [["sink",epoch,partition,"attempt"],…]')


@command
class OpenReaderGroup(Command):
    """`ReaderGroups.open`, `ProviderConnection.reader_groups`; the RECEIPT has the group and its fence (`GroupOpened`)."""

    COMMAND: ClassVar[str] = "GROUP"
    group: str = header("group", TEXT)
    address: Address = header("destination", ADDRESS)
    subscription: str | None = header("durable-subscription-name", TEXT, default=None)
    selector: str | None = header("selector", TEXT, default=None)


@command
class ReserveMessages(Command):
    """`ReaderGroups.reserve`; the RECEIPT has the highest number (`Reserved`)."""

    COMMAND: ClassVar[str] = "RESERVE"
    group: str = header("group", TEXT)
    generation: str = header("generation", TEXT)
    fence: int = header("fence", LONG)
    after: int = header("after", LONG)
    max_messages: int = header("max-messages", WHOLE)
    max_bytes: int | None = header("max-bytes", LONG, default=None)
    wait_ms: int = header("wait", WHOLE, default=0)


@command
class ReadGroup(Command):
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


@command
class AcknowledgeGroup(Command):
    """`ReaderGroups.acknowledge`."""

    COMMAND: ClassVar[str] = "SETTLE"
    group: str = header("group", TEXT)
    generation: str = header("generation", TEXT)
    fence: int = header("fence", LONG)
    upto: int = header("upto", LONG)


@command
class ReleaseGroup(Command):
    """`ReaderGroups.release`; the RECEIPT has how many messages went back (`Counted`)."""

    COMMAND: ClassVar[str] = "RELEASE"
    group: str = header("group", TEXT)


@command
class ListGroups(Command):
    """`ReaderGroups.groups`; the RECEIPT has them (`GroupsListed`)."""

    COMMAND: ClassVar[str] = "GROUPS"


@command
class StageTransaction(Command):
    """`ProviderSession.stage`; the RECEIPT has the number of messages (`Counted`)."""

    COMMAND: ClassVar[str] = "STAGE"
    session: str = header("session", TEXT)
    sink: str = header("sink", TEXT)
    epoch: int = header("epoch", LONG)
    partition: int = header("partition", NUMBER)
    attempt: str = header("attempt", TEXT)
    keep_s: int = header("keep", WHOLE)


@command
class PromoteEpoch(Command):
    """`Stages.promote`, `ProviderConnection.stages`; the RECEIPT says whether this request did it (`Promoted`)."""

    COMMAND: ClassVar[str] = "PROMOTE"
    sink: str = header("sink", TEXT)
    epoch: int = header("epoch", LONG)
    units: Sequence[StageName] = header("units", UNITS, default=())


@command
class DiscardUnits(Command):
    """`Stages.discard`."""

    COMMAND: ClassVar[str] = "DISCARD"
    units: Sequence[StageName] = header("units", UNITS, default=())


@command
class ReadMarker(Command):
    """`Stages.marker`; the RECEIPT has it (`MarkerRead`)."""

    COMMAND: ClassVar[str] = "MARKER"
    sink: str = header("sink", TEXT)


@command
class ListUnits(Command):
    """`Stages.units`; the RECEIPT has them (`UnitsListed`)."""

    COMMAND: ClassVar[str] = "UNITS"
    sink: str | None = header("sink", TEXT, default=None)


PIPELINE_VERBS: tuple[type[Command], ...] = (
    OpenReaderGroup, ReserveMessages, ReadGroup, AcknowledgeGroup, ReleaseGroup, ListGroups,
    StageTransaction, PromoteEpoch, DiscardUnits, ReadMarker, ListUnits,
)  # fmt: skip
"""All pipeline commands."""


# Registered clients


@command
class RegisterClient(Command):
    """`PersistentSessions.register`, `ProviderConnection.persistent_sessions`; the RECEIPT has the client (`ClientsListed`)."""

    COMMAND: ClassVar[str] = "REGISTER"
    client: str = header("client", TEXT)


@command
class DeregisterClient(Command):
    """`PersistentSessions.deregister`."""

    COMMAND: ClassVar[str] = "DEREGISTER"
    client: str = header("client", TEXT)


@command
class ListClients(Command):
    """`PersistentSessions.clients`; the RECEIPT has them (`ClientsListed`)."""

    COMMAND: ClassVar[str] = "CLIENTS"


@command
class TagUnit(Command):
    """`ProviderSession.tag`."""

    COMMAND: ClassVar[str] = "TAG"
    session: str = header("session", TEXT)
    client: str = header("client", TEXT)
    incarnation: int = header("incarnation", LONG)
    request: str | None = header("request-tag", TEXT, default=None)
    reply: str | None = header("reply-tag", TEXT, default=None)


PROFILE_VERSION = "1"
"""The value of the header `pyjms-profile` of CONNECT and CONNECTED."""


# The connection


@command
class Identify(Command):
    """`ProviderConnection.set_client_id`."""

    COMMAND: ClassVar[str] = "IDENTIFY"
    client_id: str = header("client-id", TEXT)


@command
class Start(Command):
    """`ProviderConnection.start`."""

    COMMAND: ClassVar[str] = "START"


@command
class Stop(Command):
    """`ProviderConnection.stop`: after its RECEIPT no message comes until START."""

    COMMAND: ClassVar[str] = "STOP"


@command
class CreateTemporary(Command):
    """`ProviderConnection.create_temporary`; the RECEIPT has the destination (`answers.Created`)."""

    COMMAND: ClassVar[str] = "CREATE"
    kind: AddressKind = header("kind", KIND)


@command
class DeleteTemporary(Command):
    """`ProviderConnection.delete_temporary`."""

    COMMAND: ClassVar[str] = "DELETE"
    address: Address = header("destination", ADDRESS)


# Sessions


@command
class OpenSession(Command):
    """`ProviderConnection.open_session`; the client chooses the name."""

    COMMAND: ClassVar[str] = "SESSION"
    session: str = header("session", TEXT)
    transacted: bool = header("transacted", FLAG, default=False)


@command
class CloseSession(Command):
    """`ProviderSession.close`."""

    COMMAND: ClassVar[str] = "ENDSESSION"
    session: str = header("session", TEXT)


@command
class Interrupt(Command):
    """`ProviderSession.end_waits`: done as soon as it is read, before queued frames of the session."""

    COMMAND: ClassVar[str] = "INTERRUPT"
    session: str = header("session", TEXT)


@command
class CommitTransaction(Command):
    """`ProviderSession.commit`."""

    COMMAND: ClassVar[str] = "COMMIT"
    session: str = header("session", TEXT)


@command
class AbortTransaction(Command):
    """`ProviderSession.rollback`."""

    COMMAND: ClassVar[str] = "ABORT"
    session: str = header("session", TEXT)


# Consumers


@command
class Subscribe(Command):
    """`ProviderSession.subscribe`. The consumer has no credit yet."""

    COMMAND: ClassVar[str] = "SUBSCRIBE"
    session: str = header("session", TEXT)
    id: str = header("id", TEXT)
    address: Address = header("destination", ADDRESS)
    selector: str | None = header("selector", TEXT, default=None)
    no_local: bool = header("no-local", FLAG, default=False)
    durable_name: str | None = header("durable-subscription-name", TEXT, default=None)
    shared_name: str | None = header("shared-subscription-name", TEXT, default=None)
    is_shared: bool = header("shared", FLAG, default=False)
    """Whether the durable subscription is shared."""
    priority: int = header("consumer-priority", NUMBER, default=0)


@command
class Browse(Command):
    """`ProviderSession.browse`: a consumer that takes no messages; `browser:end` ends it after the last one."""

    COMMAND: ClassVar[str] = "SUBSCRIBE"
    MARK: ClassVar[tuple[str, str | None] | None] = ("browser", "true")
    session: str = header("session", TEXT)
    id: str = header("id", TEXT)
    address: Address = header("destination", ADDRESS)
    selector: str | None = header("selector", TEXT, default=None)


@command
class Find(Command):
    """`ProviderSession.has_destination`; the RECEIPT has the result (`answers.Found`). Only a broker whose CONNECTED has `find:true` knows
    it.
    """

    COMMAND: ClassVar[str] = "FIND"
    session: str = header("session", TEXT)
    address: Address = header("destination", ADDRESS)


@command
class Credit(Command):
    """`ProviderConsumer.poll`, `ProviderConsumer.catch_up` and `set_interested`: how many more messages the broker may push."""

    COMMAND: ClassVar[str] = "CREDIT"
    subscription: str = header("subscription", TEXT)
    credit: int = header("credit", WHOLE, default=0)
    """Added to the remaining credit."""
    drain: bool = header("drain", FLAG, default=False)
    """Push the messages that are there now, drop the rest of the credit, and return that number in the RECEIPT."""
    revoke: bool = header("revoke", FLAG, default=False)
    """As `drain`, but push no more messages."""


@command
class Unsubscribe(Command):
    """`ProviderConsumer.close`, also of a browser."""

    COMMAND: ClassVar[str] = "UNSUBSCRIBE"
    id: str = header("id", TEXT)


@command
class DeleteSubscription(Command):
    """`ProviderSession.unsubscribe`: delete a durable subscription without a consumer."""

    COMMAND: ClassVar[str] = "UNSUBSCRIBE"
    MARK: ClassVar[tuple[str, str | None] | None] = ("durable-subscription-name", None)
    session: str = header("session", TEXT)
    durable_name: str = header("durable-subscription-name", TEXT)


# Deliveries


@command
class Acknowledge(Command):
    """`ProviderSession.acknowledge`."""

    COMMAND: ClassVar[str] = "ACK"
    session: str = header("session", TEXT)
    ids: DeliveryIds = header("ids", IDS)


@command
class GiveBack(Command):
    """`ProviderSession.recover`: to their old places, marked redelivered. Or `ProviderSession.give_back_unseen`."""

    COMMAND: ClassVar[str] = "RETURN"
    session: str = header("session", TEXT)
    ids: DeliveryIds = header("ids", IDS)
    unseen: bool = header("unseen", FLAG, default=False)
    """The application never saw them: they are not marked, and this delivery does not count."""


@command
class Retry(Command):
    """`ProviderSession.retry`."""

    COMMAND: ClassVar[str] = "RETRY"
    session: str = header("session", TEXT)
    ids: DeliveryIds = header("ids", IDS)
    reason: str = header("reason", WORDS, default="")


@command
class Reject(Command):
    """`ProviderSession.reject`."""

    COMMAND: ClassVar[str] = "REJECT"
    session: str = header("session", TEXT)
    ids: DeliveryIds = header("ids", IDS)
    reason: str = header("reason", WORDS, default="")


@command
class Adopt(Command):
    """`ProviderSession.adopt`: `session` takes over messages that other sessions of the connection received."""

    COMMAND: ClassVar[str] = "ADOPT"
    session: str = header("session", TEXT)
    ids: DeliveryIds = header("ids", IDS)


# Branches of distributed transactions


class BeginMode(Enum):
    """How a session begins to work in a branch (X/Open XA)."""

    NEW = "new"
    JOIN = "join"
    RESUME = "resume"


class EndMode(Enum):
    """How its work in the branch ends."""

    SUCCESS = "success"
    SUSPEND = "suspend"
    FAIL = "fail"


_BRANCH = ("xid", None)


@command
class BeginBranch(Command):
    """`ProviderSession.xa_start`; `timeout_s` is that of `xa_set_timeout`, 0: the broker's default."""

    COMMAND: ClassVar[str] = "BEGIN"
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)
    mode: BeginMode = header("mode", choice(BeginMode), default=BeginMode.NEW)
    timeout_s: int = header("timeout", WHOLE, default=0)


@command
class EndBranch(Command):
    """`ProviderSession.xa_end`."""

    COMMAND: ClassVar[str] = "END"
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)
    mode: EndMode = header("mode", choice(EndMode), default=EndMode.SUCCESS)


@command
class PrepareBranch(Command):
    """`ProviderSession.xa_prepare`; the RECEIPT says whether a commit is needed (`answers.Prepared`)."""

    COMMAND: ClassVar[str] = "PREPARE"
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)


@command
class PrepareTransaction(Command):
    """`ProviderSession.prepare`; the RECEIPT as for `PrepareBranch`. Only a broker whose CONNECTED has `prepare:true` knows it."""

    COMMAND: ClassVar[str] = "PREPARE"
    MARK: ClassVar[tuple[str, str | None] | None] = ("open", "true")
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)


@command
class PrepareRenamedBranch(Command):
    """`ProviderSession.xa_prepare_as`; the RECEIPT as for `PrepareBranch`. A broker that does not know it has no branch `xid`, and says so."""

    COMMAND: ClassVar[str] = "PREPARE"
    MARK: ClassVar[tuple[str, str | None] | None] = ("branch", None)
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)
    branch: Xid = header("branch", XID)


def _write_texts(texts: Sequence[str]) -> str:
    return json.dumps(texts, separators=(",", ":"))


def _read_texts(text: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except RecursionError as error:
        # JSON that is nested too deeply.
        raise ValueError from error
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError
    return tuple(found)


TEXTS = form(_write_texts, _read_texts, 'texts as JSON, ["one",…]')


@command
class NoteBranch(Command):
    """`ProviderSession.xa_note`; the RECEIPT has all notes (`answers.Noted`)."""

    COMMAND: ClassVar[str] = "NOTE"
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)
    notes: Sequence[str] = header("notes", TEXTS, default=())


@command
class CommitBranch(Command):
    """`ProviderSession.xa_commit`."""

    COMMAND: ClassVar[str] = "COMMIT"
    MARK: ClassVar[tuple[str, str | None] | None] = _BRANCH
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)
    one_phase: bool = header("one-phase", FLAG, default=False)


@command
class RollbackBranch(Command):
    """`ProviderSession.xa_rollback`."""

    COMMAND: ClassVar[str] = "ABORT"
    MARK: ClassVar[tuple[str, str | None] | None] = _BRANCH
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)


@command
class RecoverBranches(Command):
    """`ProviderSession.xa_recover`; the RECEIPT has the branches (`answers.Recovered`)."""

    COMMAND: ClassVar[str] = "RECOVER"
    session: str = header("session", TEXT)


@command
class ForgetBranch(Command):
    """`ProviderSession.xa_forget`."""

    COMMAND: ClassVar[str] = "FORGET"
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)


COMMANDS: tuple[type[Command], ...] = (
    Identify, Start, Stop, CreateTemporary, DeleteTemporary,
    OpenSession, CloseSession, Interrupt, CommitTransaction, AbortTransaction,
    Subscribe, Browse, Find, Credit, Unsubscribe, DeleteSubscription,
    Acknowledge, GiveBack, Retry, Reject, Adopt,
    BeginBranch, EndBranch, PrepareBranch, PrepareTransaction, PrepareRenamedBranch, NoteBranch,
    CommitBranch, RollbackBranch, RecoverBranches, ForgetBranch,
    *PIPELINE_VERBS,
    RegisterClient, DeregisterClient, ListClients, TagUnit,
)  # fmt: skip
"""All commands."""


def _by_command() -> Mapping[str, tuple[type[Command], ...]]:
    """Return the classes of each command, those with a mark first."""
    found: dict[str, list[type[Command]]] = {}
    for kind in sorted(COMMANDS, key=lambda kind: kind.MARK is None):
        found.setdefault(kind.COMMAND, []).append(kind)
    return {name: tuple(kinds) for name, kinds in found.items()}


_BY_COMMAND = _by_command()


def read_command(name: str, headers: Mapping[str, str]) -> Command:
    """Return the command of the name `name` with `headers`.

    Raises:
        CommandError: the profile has no such command, or a header is missing or wrong.
    """
    kinds = _BY_COMMAND.get(name)
    if kinds is None:
        raise CommandError(f"{name} is no command of the pyjms profile")
    kind = kinds[0] if len(kinds) == 1 else next(kind for kind in kinds if _is_meant(kind, headers))
    return kind.from_headers(name, headers)


def _is_meant(kind: type[Command], headers: Mapping[str, str]) -> bool:
    """Return whether a command with these headers, and the name of `kind`, is one of `kind`."""
    if kind.MARK is None:
        return True
    if kind is DeleteSubscription and "id" in headers:
        return False  # it ends a consumer, even if it also names a subscription
    # The header alone is a mark if it may have any value.
    name, value = kind.MARK
    return name in headers and value in (None, headers[name])
