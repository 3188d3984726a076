"""The options of ``format("jms")``, checked and typed. Spark hands them over as texts, in any case of letters.

Option values appear in Spark's plans and logs, so none is ever a secret: `credentials` names where the secret is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from pyjms.spark.errors import OptionError
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import InvalidSelectorError, MissingProviderError, UrlError
from pyjms.spi.registry import find_provider
from pyjms.spi.selector import selector_or_none
from pyjms.spi.url import ProviderUrl
from pyjms.spi.words import on_one_line

DEFAULT_MESSAGES_PER_BATCH = 10_000
DEFAULT_STAGE_TIMEOUT_S = 24 * 3600

JOB_PREFIX = "job:"
"""Begins the name of a job's sink at the broker."""
_SPARKS_OWN = frozenset({"path", "paths", "checkpointlocation", "queryname", "mergeschema", "inferschema"})
"""What Spark adds by itself to the options that a user gave."""
_SECRETS = frozenset({"user", "username", "password", "passcode", "login"})


class Mode(Enum):
    """How messages are read."""

    REPLAY = "replay"
    SPOOL = "spool"
    AT_LEAST_ONCE = "at-least-once"
    BROWSE = "browse"
    RESERVE = "reserve"


class AckOn(Enum):
    """When the messages of a batch are acknowledged: once Spark asks for the next one, or once it calls ``commit``."""

    PROGRESS = "progress"
    COMMIT = "commit"


class Duplicates(Enum):
    """What a spool does with messages that have no JMSMessageID, by which it knows those it has seen."""

    REFUSE = "refuse"
    ALLOW = "allow"


class Headers(Enum):
    """Whether the sink gives messages a JMSMessageID and JMSTimestamp of their own, or keeps those of the rows."""

    NEW = "new"
    KEEP = "keep"


class Repeated(Enum):
    """What a sink does with an epoch that it has written already: compare the rows with those that it wrote, or trust that they are the same."""

    COMPARE = "compare"
    TRUST = "trust"


@dataclass(frozen=True, slots=True, kw_only=True)
class JmsOptions:
    """All options, as they are after their defaults. docs/reference/spark.md has the table."""

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
        """The most messages that one batch of a stream has."""
        return self.max_messages or DEFAULT_MESSAGES_PER_BATCH


def parse_address(text: str, option: str = "destination") -> Address:
    """Return what ``queue:NAME``, ``topic:NAME``, ``temp-queue:NAME`` or ``temp-topic:NAME`` names; a bare name is that of a queue.

    Raises `OptionError`.
    """
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
    """Return what `parse_address` reads."""
    return f"{'temp-' if address.temporary else ''}{address.kind.name.lower()}:{address.name}"


_ADDRESSES = {
    "queue": (AddressKind.QUEUE, False),
    "topic": (AddressKind.TOPIC, False),
    "temp-queue": (AddressKind.QUEUE, True),
    "temp-topic": (AddressKind.TOPIC, True),
}


def parse_options(given: Mapping[str, Any]) -> JmsOptions:
    """Return the options that `given` has. Raises `OptionError` that names the option and says what to write."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        key = name.lower()
        if key in _READERS:
            target, read = _READERS[key]
            values[target] = read(_NAMES[key], str(value).strip())
        elif key in _SECRETS:
            raise OptionError(
                f"option {name} would show in Spark's plans and logs: give credentials=file:PATH, a file with the user's name in "
                "its first line and the password in its second, or credentials=env:VARIABLE, which holds USER:PASSWORD"
            )
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
    """The broker holds for it under its name with `JOB_PREFIX`, and takes 200 characters together."""
    most = 200 - len(JOB_PREFIX)
    if not 1 <= len(value) <= most:
        raise OptionError(f"option {option} has {len(value)} characters; the name of a job has 1 to {most}")
    return value


def _count(option: str, value: str) -> int:
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
    try:  # now: Spark takes seconds to begin, and a query would break off
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
