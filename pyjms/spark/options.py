"""The options of ``format("jms")`` and of pipelines, checked and typed before Spark starts, and the errors they raise.

Spark passes options as texts, in upper or lower case.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import InvalidSelectorError, MissingProviderError, ProviderError, UrlError
from pyjms.spi.registry import find_provider
from pyjms.spi.selector import selector_or_none
from pyjms.spi.url import ProviderUrl
from pyjms.spi.words import on_one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OptionError(ProviderError):
    """An option of ``format("jms")`` is missing, unknown or wrong; the text names it and says what to write."""

    code = "PYJMS-OPTION"


class RowError(ProviderError):
    """A column or a row cannot become a message, or a message not the column that is wanted."""

    code = "PYJMS-ROW"


class DataLossError(ProviderError):
    """A checkpoint refers to messages that no longer exist, or is older than the output.

    ``failOnDataLoss=false`` continues without them, but never from an old copy of a checkpoint: its batch numbers are
    already used.
    """

    code = "PYJMS-DATA-LOSS"


class SpoolError(ProviderError):
    """The folder of spooled messages is in use, damaged, or cannot be written."""

    code = "PYJMS-SPOOL"


def old_checkpoint(seq: int, holder: str, low: int) -> DataLossError:
    """Return the error for a query whose checkpoint is older than what `holder` has released, with any
    ``failOnDataLoss``.
    """
    return DataLossError(
        f"the checkpoint is at message {seq} of {holder}, whose messages up to {low} are acknowledged and gone: the checkpoint is an old copy. "
        "Start the query with a new checkpoint and a new output folder or sinkId, and the same readerGroup or spoolDir: it goes on with what "
        "is not acknowledged. failOnDataLoss=false does not help here: the output knows the numbers of the next batches already, and would "
        "pass new messages over"
    )


_NAME_MAX = 200
_MICROS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_NUMBER = re.compile(r"[+-]?(\d{1,9}(\.\d{0,9})?|\.\d{1,9})")


def check_every(every: str) -> None:
    """Check that Spark can start batches at that interval: a non-negative span in the syntax of its triggers."""
    words = every.lower().split()
    # Spark accepts the word `interval` in front of a span.
    words = words[1:] if words[:1] == ["interval"] else words
    spans = [_micros(number, unit) for number, unit in zip(words[::2], words[1::2], strict=False)]
    known = [each for each in spans if each is not None]
    # The sum decides and not each part: Spark allows negative parts, and refuses a negative trigger only.
    if not words or len(words) % 2 or len(known) < len(spans) or sum(known) < 0:
        raise OptionError(f"every={every!r}: write how often, such as '10 seconds', '1 minute' or '0 seconds'")


def _micros(number: str, unit: str) -> float | None:
    micros = _MICROS.get(unit.removesuffix("s"))
    # Spark allows a fraction of seconds only.
    if micros is None or _NUMBER.fullmatch(number) is None or ("." in number and micros != _MICROS["second"]):
        return None
    return float(number) * micros


def check_job(job: str) -> None:
    """Check the name of a replay. Surrounding blanks do not count, as in all options."""
    if not 1 <= len(job.strip()) <= _NAME_MAX:
        raise OptionError(f"the name of a job has 1 to {_NAME_MAX} characters, and this one has {len(job.strip())}")


def check_folder(place: str) -> None:
    """Check that a place, a path or a URL, can name a folder for Spark."""
    if not place.strip():
        raise OptionError("the name of a folder is empty: write a path, or a URL that Spark knows")
    scheme, colon, rest = place.partition(":")
    # Hadoop takes the text before a colon for a scheme, and refuses a relative path behind one.
    if colon and "/" not in scheme and not rest.startswith("/"):
        raise OptionError(
            f"{place!r}: Spark takes what stands before a colon for the kind of a URL: write the whole path, from / on"
        )


def check_output(path: Path) -> None:
    """Check that a file can be written."""
    there = path if path.exists() else path.parent
    if path.is_dir() or not path.parent.is_dir():
        raise OptionError(
            f"{path} cannot be written: {'it is a folder' if path.is_dir() else f'there is no folder {path.parent}'}"
        )
    # Checked before Spark starts, which takes seconds; the page of an audit is written at its very end.
    if not os.access(there, os.W_OK):
        raise OptionError(f"{path} cannot be written: {there} does not permit it")


def check_page(path: Path) -> None:
    """Check that a page can be written and would replace nothing but an older page."""
    _check_begin(path, b"<!DOCTYPE html>", "is no page, and would be overwritten")


def check_lines(path: Path) -> None:
    """Check that lines of JSON can be appended to a file without spoiling another one, such as a recording."""
    _check_begin(path, b"{", "has no lines of JSON, to which others can be added")


def _check_begin(path: Path, begin: bytes, else_told: str) -> None:
    check_output(path)
    if not path.is_file():  # the file does not exist, or is a pipe, which has no beginning
        return
    try:
        with path.open("rb") as file:
            found = file.read(len(begin))
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}") from error
    if found not in (b"", begin):
        raise OptionError(f"{path} is there and {else_told}: name another file")


# Whether a condition of Spark SQL selects the same messages each time.

_CLOCKS = frozenset({"CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now"})
"""Spark's names of functions that read the clock. It takes them for deterministic, as they are within one query."""
_MOMENTS = frozenset({"now", "today", "tomorrow", "yesterday"})
"""Texts that Spark's casts to dates and timestamps resolve by the clock."""


def check_condition(rows: DataFrame, where: str) -> None:
    """Check that `where`, which selected `rows`, would select the same messages tomorrow. Raises `OptionError`."""
    frame: Any = rows
    # The analysed plan, as the optimiser replaces clock functions and casts of constants by values.
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 -- PySpark shows plans as texts alone
    patterns = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # noqa: SLF001
    for each in _expressions(plan, (patterns.CURRENT_LIKE(), patterns.CAST())):
        kind = str(each.getClass().getSimpleName())
        # Spark calls the clock deterministic within a query, and a cast of 'today'
        # is a constant to it, so both are named here.
        if kind in _CLOCKS or not each.deterministic() or (kind == "Cast" and _is_moment(each)):
            raise OptionError(
                f"the condition {where!r} has another result each time, by {each.sql()}, and a job that is started again must choose the same messages: "
                "write the values themselves, such as day = '2026-01-31'"
            )


def _is_moment(cast: Any) -> bool:
    words = str(cast.child().toString()).split()
    return (
        str(cast.dataType().typeName()).startswith(("date", "timestamp"))
        and words[:1] != []
        and words[0].lower() in _MOMENTS
    )


def _expressions(plan: Any, patterns: Sequence[Any]) -> Iterator[Any]:
    """Yield the expressions of a plan that may be nondeterministic, the innermost first, so that the first match is the
    cause.
    """
    for each in _each(plan.expressions()):
        yield from _inside(each, patterns)
    for each in _each(plan.children()):
        yield from _expressions(each, patterns)


def _inside(expression: Any, patterns: Sequence[Any]) -> Iterator[Any]:
    if expression.deterministic() and not any(map(expression.containsPattern, patterns)):
        return  # each call into the JVM takes its time, and a list may have thousands of values
    for each in _each(expression.children()):
        yield from _inside(each, patterns)
    # After its children: the error names the innermost nondeterministic expression.
    yield expression


def _each(found: Any) -> Iterator[Any]:
    return (found.apply(place) for place in range(found.size()))


DEFAULT_MESSAGES_PER_BATCH = 10_000
DEFAULT_STAGE_TIMEOUT_S = 24 * 3600

JOB_PREFIX = "job:"
"""Prefix of the name of a job's sink at the broker."""
_SPARKS_OWN = frozenset({"path", "paths", "checkpointlocation", "queryname", "mergeschema", "inferschema"})
"""Options that Spark adds by itself to the user's."""
_SECRETS = frozenset({"user", "username", "password", "passcode", "login"})


class Mode(Enum):
    """How messages are read."""

    REPLAY = "replay"
    SPOOL = "spool"
    AT_LEAST_ONCE = "at-least-once"
    BROWSE = "browse"
    RESERVE = "reserve"


class AckOn(Enum):
    """When the messages of a batch are acknowledged: when Spark asks for the next batch, or when it calls ``commit``."""

    PROGRESS = "progress"
    COMMIT = "commit"


class Duplicates(Enum):
    """How a spool treats messages that have no JMSMessageID, by which it recognises repeated ones."""

    REFUSE = "refuse"
    ALLOW = "allow"


class Headers(Enum):
    """Whether the sink gives messages a new JMSMessageID and JMSTimestamp, or keeps those of the rows."""

    NEW = "new"
    KEEP = "keep"


class Repeated(Enum):
    """How a sink treats an epoch that it has already written: it compares the rows with those written, or trusts that
    they are the same.
    """

    COMPARE = "compare"
    TRUST = "trust"


@dataclass(frozen=True, slots=True, kw_only=True)
class JmsOptions:
    """All options, with defaults applied. docs/reference/spark.md has the table."""

    url: str
    destination: Address | None = None
    reader_group: str | None = None
    client_id: str | None = None
    subscription: str | None = None
    selector: str | None = None
    mode: Mode | None = None
    ack_on: AckOn = AckOn.PROGRESS
    max_messages: int | None = None
    max_bytes: int | None = None
    partitions: int | None = None
    with_bodies: bool = True
    pushdown: bool = False
    arrow: bool = True
    spool_dir: str | None = None
    duplicates: Duplicates = Duplicates.REFUSE
    fail_on_data_loss: bool = True
    sink_id: str | None = None
    job_id: str | None = None
    epoch: int | None = None
    headers: Headers = Headers.NEW
    repeated: Repeated = Repeated.COMPARE
    stage_timeout_s: int = DEFAULT_STAGE_TIMEOUT_S
    credentials: str | None = None

    @property
    def messages_per_batch(self) -> int:
        """The maximum number of messages in one batch of a stream."""
        return self.max_messages or DEFAULT_MESSAGES_PER_BATCH


def parse_address(text: str, option: str = "destination") -> Address:
    """Return the address that ``queue:NAME``, ``topic:NAME``, ``temp-queue:NAME`` or ``temp-topic:NAME`` denotes; a
    bare name is that of a queue.

    Raises `OptionError`.
    """
    # A bare name may be given; a name with a colon needs its kind, as the part before it could be a misspelt one.
    kind, colon, name = text.partition(":") if ":" in text else ("queue", ":", text)
    found = _ADDRESSES.get(kind)
    if found is None or not colon or not name:
        raise OptionError(
            f"{option}={text!r} names no destination: write queue:NAME, topic:NAME, or the name of a queue"
        )
    if "\0" in name:
        raise OptionError(f"{option}={text!r}: no name of a destination has NUL in it, which no wire carries")
    return Address(found[0], name, found[1])


def address_text(address: Address) -> str:
    """Return an address as text that `parse_address` reads."""
    return f"{'temp-' if address.temporary else ''}{address.kind.name.lower()}:{address.name}"


_ADDRESSES = {
    "queue": (AddressKind.QUEUE, False),
    "topic": (AddressKind.TOPIC, False),
    "temp-queue": (AddressKind.QUEUE, True),
    "temp-topic": (AddressKind.TOPIC, True),
}


def parse_options(given: Mapping[str, Any]) -> JmsOptions:
    """Return the options parsed from `given`. Raises `OptionError` that names the option and the accepted values."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        key = name.lower()
        if key in _READERS:
            target, read = _READERS[key]
            values[target] = read(_NAMES[key], str(value).strip())
        # Refused rather than accepted: Spark shows options in plans, in its user interface and in event logs.
        elif key in _SECRETS:
            raise OptionError(
                f"option {name} would show in Spark's plans and logs: give credentials=file:PATH, a file with the user's name in "
                "its first line and the password in its second, or credentials=env:VARIABLE, which holds USER:PASSWORD"
            )
        # Spark adds options of its own, internal ones with two underscores, to those of the user.
        elif key not in _SPARKS_OWN and not key.startswith("__"):
            raise OptionError(f"option {name} is not known{_hint(key)}; docs/reference/spark.md lists all")
    if "url" not in values:
        raise OptionError(
            'option url is missing: say where the broker is, as in .option("url", "stomp://127.0.0.1:61613")'
        )
    options = JmsOptions(**values)
    _check_together(options)
    return options


def _check_together(options: JmsOptions) -> None:
    topic = options.destination is not None and options.destination.kind is AddressKind.TOPIC
    if options.subscription is not None:
        if not topic:
            raise OptionError("option subscription names a durable subscription: give destination=topic:NAME with it")
        if options.client_id is None:
            raise OptionError("option subscription needs clientId: a durable subscription belongs to a client id")
    if options.epoch is not None and options.sink_id is None:
        raise OptionError("option epoch goes with sinkId, whose epochs it counts")


def _hint(key: str) -> str:
    close = difflib.get_close_matches(key, _NAMES, 1)
    return f": did you mean {_NAMES[close[0]]}?" if close else ""


# ------------------------------------------------------------------------------------------------- one value each

_Choice = TypeVar("_Choice", bound=Enum)


def _text(option: str, value: str) -> str:
    if not value:
        raise OptionError(f"option {option} is empty; leave it out, or give it a value")
    return value


def _name(option: str, value: str) -> str:
    if not 1 <= len(value) <= 200:
        raise OptionError(f"option {option} has {len(value)} characters; a name has 1 to 200")
    return value


def _job(option: str, value: str) -> str:
    """Return the name of a job. Raises `OptionError`."""
    # The broker holds a job under its name with `JOB_PREFIX`, and takes 200 characters together.
    most = 200 - len(JOB_PREFIX)
    if not 1 <= len(value) <= most:
        raise OptionError(f"option {option} has {len(value)} characters; the name of a job has 1 to {most}")
    return value


def _count(option: str, value: str) -> int:
    # `int` would also accept digits of other scripts, underscores, blanks and signs.
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) < 2**31:
        raise OptionError(f"{option}={value!r}: write a whole number from 1 on")
    return int(value)


def _epoch(option: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) >= 2**63:
        raise OptionError(f"{option}={value!r}: write a whole number from 0 on")
    return int(value)


def _truth(option: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise OptionError(f"{option}={value!r}: write true or false")
    return value.lower() == "true"


def _bodies(option: str, value: str) -> bool:
    if value.lower() not in ("full", "none"):
        raise OptionError(f"{option}={value!r}: write full, or none to leave the bodies out")
    return value.lower() == "full"


def _choice(kind: type[_Choice]) -> Callable[[str, str], _Choice]:
    def read(option: str, value: str) -> _Choice:
        try:
            return kind(value.lower())
        except ValueError:
            raise OptionError(
                f"{option}={value!r}: write one of {', '.join(str(each.value) for each in kind)}"
            ) from None

    return read


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,9})([smhd]?)")


def _span(option: str, value: str) -> int:
    match = _SPAN.fullmatch(value)
    if match is None or not int(match[1]):
        raise OptionError(f"{option}={value!r}: write a time such as 3600, 90m, 24h or 7d")
    return int(match[1]) * _UNITS[match[2]]


def _destination(option: str, value: str) -> Address:
    return parse_address(value, option)


def _selector(option: str, value: str) -> str:
    try:
        selector_or_none(_text(option, value))
    except InvalidSelectorError as error:
        raise OptionError(f"option {option}: {on_one_line(error.reason)}") from None
    return value


def _url(option: str, value: str) -> str:
    try:
        url = ProviderUrl.parse(value)
    except UrlError as error:
        raise OptionError(f"option {option}: {error.reason}") from None
    if url.password is not None:
        raise OptionError(
            f"option {option} holds a password, which would show in Spark's plans and logs: take it out and give "
            "credentials=file:PATH or credentials=env:VARIABLE"
        )
    if url.scheme == "vm":
        raise OptionError(
            f"option {option}: vm:// is a broker within one process, and Spark reads and writes from many; run the broker with "
            "`pyjms broker run --listen stomp://127.0.0.1:61613 ...` and give that URL"
        )
    try:  # checked now: Spark takes seconds to start, and a query would fail only then
        find_provider(url.scheme).check_url(url)
    except (MissingProviderError, UrlError) as error:
        raise OptionError(f"option {option}: {error.reason}") from None
    return value


def _credentials(option: str, value: str) -> str:
    where, colon, name = value.partition(":")
    if where not in ("file", "env") or not colon or not name:
        raise OptionError(
            f"option {option} is the place of a secret, not the secret: write file:PATH (the user's name in its first line, the "
            "password in its second) or env:VARIABLE (USER:PASSWORD)"
        )
    return value


_OPTIONS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "url": ("url", _url),
    "destination": ("destination", _destination),
    "readerGroup": ("reader_group", _name),
    "clientId": ("client_id", _text),
    "subscription": ("subscription", _text),
    "selector": ("selector", _selector),
    "mode": ("mode", _choice(Mode)),
    "ackOn": ("ack_on", _choice(AckOn)),
    "maxMessagesPerBatch": ("max_messages", _count),
    "maxBytesPerBatch": ("max_bytes", _count),
    "partitions": ("partitions", _count),
    "body": ("with_bodies", _bodies),
    "pushdown": ("pushdown", _truth),
    "arrow": ("arrow", _truth),
    "spoolDir": ("spool_dir", _text),
    "duplicates": ("duplicates", _choice(Duplicates)),
    "failOnDataLoss": ("fail_on_data_loss", _truth),
    "sinkId": ("sink_id", _name),
    "jobId": ("job_id", _job),
    "epoch": ("epoch", _epoch),
    "headers": ("headers", _choice(Headers)),
    "repeated": ("repeated", _choice(Repeated)),
    "stageTimeout": ("stage_timeout_s", _span),
    "credentials": ("credentials", _credentials),
}
_NAMES = {name.lower(): name for name in _OPTIONS}
_READERS = {name.lower(): reader for name, reader in _OPTIONS.items()}
