"""The messages between the processes of a run: one JSON object per line.

A worker gets a `Job` when it starts. It answers `Collected` or `Refused`. Then it gets an `Order` for each test, and
answers with the test's result; the end of its input ends it at any time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from io import RawIOBase
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from pyjms_tck.catalogue import Version
from pyjms_tck.results import ProviderFacts, TestResult, writable


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The configuration of a worker."""

    url: str
    profile: str | None
    """The path of a profile.py."""
    select: tuple[str, ...]
    version: Version
    target: str
    """The file or folder with the tests."""
    dump: str
    """The file into which a worker writes the stacks of its threads when a test takes too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test, before it is run."""

    __test__ = False  # otherwise pytest would collect it by its name

    test: str
    requirements: tuple[str, ...]
    statement: str
    """The text of its docstring, or of its name."""
    module: str
    """The last part of its module's name."""
    unsupported: str | None
    """Why it must not be run, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A worker has connected and knows its tests."""

    provider: ProviderFacts
    lacks: Mapping[str, str]
    """Requirement -> why the provider is not judged by it."""
    tests: tuple[Test, ...]
    limit_s: float
    parallel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A worker cannot run tests at all."""

    text: str
    is_unreachable: bool
    """Whether the provider is at fault, and not the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Run this test, and dump the stacks of all threads when it takes longer than `limit_s`."""

    test: str
    limit_s: float


Answer = Collected | Refused | TestResult


def statement_of(function: object, name: str) -> str:
    """Return the title of a test: the first paragraph of its docstring, or its name."""
    first = (getattr(function, "__doc__", None) or "").strip().partition("\n\n")[0]
    words = name.removeprefix("test_").replace("_", " ")
    return " ".join(first.split()) or f"{words[:1].upper()}{words[1:]}."


_KINDS: Mapping[str, type[Answer]] = {kind.__name__: kind for kind in (Collected, Refused, TestResult)}


def to_line(message: Job | Order | Answer) -> str:
    """Return `message` as a line."""
    return json.dumps({"kind": type(message).__name__, **asdict(message)}) + "\n"


def answer_from_line(line: str | bytes) -> Answer:
    """Return the worker's answer on `line`."""
    data: dict[str, Any] = writable(json.loads(line))
    kind = _KINDS[data.pop("kind")]
    if kind is TestResult:
        return TestResult.from_data(data)
    if kind is Collected:
        tests = tuple(Test(**{**test, "requirements": tuple(test["requirements"])}) for test in data.pop("tests"))
        about = data.pop("provider")
        provider = ProviderFacts(**{**about, "capabilities": tuple(about["capabilities"])})
        return Collected(provider=provider, tests=tests, **data)
    return kind(**data)


_FAREWELL_S = 3.0
"""The time in which a worker must end after the last order, in seconds; less than its controller would wait."""


class Orders:
    """The lines of `source`, for one thread. After the last one the process ends, even if a test hangs."""

    def __init__(self, source: RawIOBase) -> None:
        """`source` is read without a buffer, whose lock a reading thread would hold for ever at the end."""
        self._source = source
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        # On a separate thread: the end of the input must be noticed while a test hangs on the main one.
        Thread(target=self._listen, name="pyjms-tck-orders", daemon=True).start()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines.get, b"")

    def _listen(self) -> None:
        for line in iter(self._source.readline, b""):
            self._lines.put(line)
        self._lines.put(b"")
        Event().wait(_FAREWELL_S)
        # Not `sys.exit`, which would end only this thread.
        os._exit(1)
