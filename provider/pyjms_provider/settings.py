"""The settings of an embedded broker, also given as the options of a ``vm://`` URL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

from pyjms.spi.errors import UrlError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.core.host.host_policy import ExpiredInTransaction, HostPolicy
from pyjms_provider.core.policy import PolicyError, QueuePolicies, QueuePolicy, read_bytes
from pyjms_provider.core.queue.channel_state import Reliability
from pyjms_provider.core.queue_types import QueueType
from pyjms_provider.core.transaction.branches import DEFAULT_TIMEOUT_MS
from pyjms_provider.core.transaction.registered_clients import DEFAULT_CLIENTS_MAX
from pyjms_provider.stories.settings import StoryLevel, StorySettings

__all__ = [
    "URL_OPTIONS",
    "Acknowledge",
    "BrokerSettings",
    "PagingSettings",
    "StandBy",
    "StoreSettings",
    "Synchronous",
    "read_url",
]

_Choice = TypeVar("_Choice", bound=Enum)

DEFAULT_MEMORY: Final = 200_000_000
_KEEP_FREE: Final = 16_000_000


class Synchronous(Enum):
    """How safe a write of PERSISTENT or committed messages is when its call returns."""

    FULL = "full"
    NORMAL = "normal"
    OFF = "off"


class Acknowledge(Enum):
    """How safe a write that only acknowledges is when its call returns."""

    WRITTEN = "written"
    FORCED = "forced"


class StandBy(Enum):
    """The reaction to another broker that holds the store."""

    REFUSE = "refuse"
    WAIT = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The store of a broker, and how carefully it is written."""

    url: str = field(repr=False)
    """Its scheme selects the store; it may contain a password."""
    synchronous: Synchronous = Synchronous.FULL
    acknowledge: Acknowledge = Acknowledge.WRITTEN
    stand_by: StandBy = StandBy.REFUSE
    memory_bytes: int = DEFAULT_MEMORY
    """The most memory for the bodies of messages; the others wait on the disk."""
    keep_free_bytes: int = _KEEP_FREE
    """While the disk of a file has less free space, messages are refused, so that those there can be acknowledged; 0: never."""
    wait_ms: int = 0
    """The time to wait, at the start, for a server that cannot be reached."""
    held_until_s: Callable[[], float] | None = field(default=None, repr=False, compare=False)
    """Returns until when a server's lock can be held at most, as others take it then, in seconds of `seconds_since_boot`; None: no limit is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingSettings:
    """The temporary file of a broker without a store, for messages that do not fit into memory."""

    memory_bytes: int = DEFAULT_MEMORY
    """The most memory for the bodies of messages; the others wait in the file."""
    directory: Path | None = None
    """Where the file is made; None: TMPDIR, or /var/tmp, which is not in memory."""
    limit_bytes: int = 0
    """The most that the messages in the file take; beyond it messages are refused; 0: what the disk has."""
    keep_free_bytes: int = _KEEP_FREE
    """While the disk has less free space, messages beyond memory are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """All settings with which a broker is started."""

    policy: HostPolicy = field(default_factory=HostPolicy)
    store: StoreSettings | None = None
    paging: PagingSettings | None = None
    """Without a store: the memory of messages and the file for the others; None: all are in memory."""
    story: StorySettings | None = None
    """The recording of the messages' lives; None: nothing is recorded."""


_VALUES: Final[Mapping[str, str]] = {
    "expired_in_transaction": "rollback or discard",
    "reliability": "memory or strict",
    "store": "the URL of a store such as sqlite:///shop.db",
    "synchronous": "full, normal or off",
    "acknowledge": "written or forced",
    "stand_by": "refuse or wait",
    "memory": "bytes, as 200MB or 1GiB",
    "keep_free": "bytes, as 16MB or 1GiB",
    "paging_directory": "a directory on a disk",
    "paging_limit": "bytes, as 10GB; 0: what the disk has",
    "branch_timeout": "seconds, 0: never",
    "transaction_timeout": "seconds, 0: never",
    "persist_all": "true or false",
    "keep_transient": "true or false",
    "registered_clients_max": "a number of clients",
    "forget_clients": "seconds, 0: never",
    "story": "ends, all or off",
    "story_directory": "a directory for stories alone",
    "story_days": "days",
    "story_size": "bytes, as 64MB",
    "story_properties": "names of properties, joined by commas",
}
_POLICY: Final = {each.name: getattr(QueuePolicy(), each.name) for each in fields(QueuePolicy)}
"""The options that choose the policy of queues, with their defaults."""
URL_OPTIONS: Final = frozenset((*_VALUES, *_POLICY))
"""All options of a ``vm://`` URL."""
_POLICY_TEXTS: Final = ("key", "dead_letter", "expiry_queue")
_BOOLEANS: Final = {"true": True, "false": False}
_NEEDS_STORE: Final = ("synchronous", "acknowledge", "stand_by", "branch_timeout", "keep_transient")
_OF_PAGING: Final = ("paging_directory", "paging_limit")


def read_url(url: ProviderUrl) -> tuple[str, BrokerSettings | None]:
    """Return the broker's name and, if the URL has options, its settings. Raises `UrlError`."""
    if not url.host:
        raise UrlError("the URL does not name a broker; write for instance vm://shop")
    if url.port is not None or url.path not in {"", "/"}:
        raise UrlError(f"vm://{url.host} is in this process and has neither port nor path; write vm://{url.host}")
    options = url.options
    for name in options:
        if name not in URL_OPTIONS:
            known = ", ".join(f"{known}={values}" for known, values in _VALUES.items())
            raise UrlError(
                f"vm:// has no option {name!r}; its options are: {known}; and of the policy of queues: {', '.join(_POLICY)}"
            )
    for name in _NEEDS_STORE:
        if name in options and "store" not in options:
            raise UrlError(f"{name}= says how a store is used, so it needs store={_VALUES['store']}")
    for name in _OF_PAGING:
        if name in options and ("store" in options or "memory" not in options):
            raise UrlError(
                f"{name}= is for the temporary file of a broker with memory= and without store=, which has files of its own"
            )
    if "keep_free" in options and not options.keys() & {"store", "memory"}:
        raise UrlError(
            f"keep_free= says how a disk is used, so it needs store={_VALUES['store']}, or memory={_VALUES['memory']}"
        )
    if not options:
        return url.host, None
    chosen = _policy(options)
    # The order of a topic's messages is that of its subscriptions; the rest of a policy would suit queues alone.
    of_topics = QueuePolicy(type=chosen.type) if chosen.type is QueueType.TOTAL_ORDER else QueuePolicy()
    policy = HostPolicy(
        expired_in_transaction=_choice(options, "expired_in_transaction", ExpiredInTransaction.ROLLBACK),
        reliability=_choice(options, "reliability", Reliability.MEMORY),
        branch_timeout_ms=_milliseconds(options, "branch_timeout", DEFAULT_TIMEOUT_MS),
        transaction_timeout_ms=_milliseconds(options, "transaction_timeout", 0),
        persist_all=_truth(options, "persist_all"),
        keep_transient=_truth(options, "keep_transient"),
        registered_clients_max=_number(options, "registered_clients_max", DEFAULT_CLIENTS_MAX),
        forget_clients_ms=_milliseconds(options, "forget_clients", 0),
        queues=QueuePolicies(default=chosen, subscriptions=of_topics),
    )
    return url.host, BrokerSettings(
        policy=policy, store=_store(options), paging=_paging(options), story=_story(options)
    )


def _store(options: Mapping[str, str]) -> StoreSettings | None:
    url = options.get("store")
    if url is None:
        return None
    if not url:
        raise UrlError(f"store= is empty; write {_VALUES['store']}")
    return StoreSettings(
        url=url,
        synchronous=_choice(options, "synchronous", Synchronous.FULL),
        acknowledge=_choice(options, "acknowledge", Acknowledge.WRITTEN),
        stand_by=_choice(options, "stand_by", StandBy.REFUSE),
        memory_bytes=_bytes(options["memory"]) if "memory" in options else DEFAULT_MEMORY,
        keep_free_bytes=_bytes(options["keep_free"], "keep_free") if "keep_free" in options else _KEEP_FREE,
    )


def _paging(options: Mapping[str, str]) -> PagingSettings | None:
    """Return the settings of the temporary file of a broker without a store; None: there is none."""
    if "store" in options or "memory" not in options:
        return None
    directory = options.get("paging_directory")
    if directory == "":
        raise UrlError(f"paging_directory= is empty; write {_VALUES['paging_directory']}")
    return PagingSettings(
        memory_bytes=_bytes(options["memory"]),
        directory=None if directory is None else Path(directory),
        limit_bytes=_bytes(options["paging_limit"], "paging_limit") if "paging_limit" in options else 0,
        keep_free_bytes=_bytes(options["keep_free"], "keep_free") if "keep_free" in options else _KEEP_FREE,
    )


def _story(options: Mapping[str, str]) -> StorySettings | None:
    level = _choice(options, "story", StoryLevel.OFF)
    if level is StoryLevel.OFF:
        given = [name for name in options if name.startswith("story_")]
        if given:
            raise UrlError(f"{given[0]}= says how stories are kept, so it needs story=ends or story=all")
        return None
    directory = options.get("story_directory")
    if not directory:
        raise UrlError(f"story={level.value} needs story_directory={_VALUES['story_directory']}")
    days = options.get("story_days", "7")
    if not re.fullmatch(r"[1-9][0-9]{0,3}", days):
        raise UrlError(f"{days!r} is no number of days; write story_days=7")
    return StorySettings(
        level=level,
        directory=Path(directory),
        days=int(days),
        total_bytes=_bytes(options.get("story_size", "64MB"), "story_size"),
        properties=tuple(name.strip() for name in options.get("story_properties", "").split(",") if name.strip()),
    )


def _choice(options: Mapping[str, str], name: str, default: _Choice) -> _Choice:
    chosen = options.get(name)
    if chosen is None:
        return default
    try:
        return type(default)(chosen)
    except ValueError:
        raise UrlError(f"{chosen!r} is no value of {name}; write {name}={_VALUES[name]}") from None


def _truth(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false")
    if text not in _BOOLEANS:
        raise UrlError(f"{text!r} is no value of {name}; write {name}={_VALUES[name]}")
    return _BOOLEANS[text]


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise UrlError(f"{text!r} is no number; write {name}={_VALUES[name]}")
    return int(text)


def _milliseconds(options: Mapping[str, str], name: str, default_ms: int) -> int:
    seconds = options.get(name)
    if seconds is None:
        return default_ms
    if not re.fullmatch(r"[0-9]{1,9}", seconds):
        raise UrlError(f"{seconds!r} is no number of seconds; write {name}={_VALUES[name]}")
    return int(seconds) * 1000


def _policy(options: Mapping[str, str]) -> QueuePolicy:
    """Return the policy of queues that have none of their own. Raises `UrlError`."""
    chosen = {name: _policy_value(name, text) for name, text in options.items() if name in _POLICY}
    try:
        policy = QueuePolicy.from_mapping(chosen)
        policy.check_undivided()
    except PolicyError as error:
        raise UrlError(f"vm:// asks for a policy of queues that cannot be: {error.reason}") from error
    return policy


def _policy_value(name: str, text: str) -> object:
    """Convert the value of a field of `QueuePolicy`; a value of a wrong type is left to the policy's own check."""
    default = _POLICY[name]
    if isinstance(default, bool):
        return _BOOLEANS.get(text, text)
    if name in _POLICY_TEXTS or isinstance(default, Enum):
        return text
    try:
        return float(text) if isinstance(default, float) else int(text)
    except ValueError:
        return text


def _bytes(text: str, name: str = "memory") -> int:
    found = read_bytes(text)
    if found is None:
        raise UrlError(f"{text!r} is no number of bytes; write {name}={_VALUES[name]}")
    return found
