"""What the processes of a run say to each other: one JSON object on a line.

A worker gets a `Job` when it starts. It answers `Collected` or `Refused`. Then it gets an `Order` for each test, and
answers with the test's result; the end of its input ends it, whatever it is doing.
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

from pyjms_tck.results import ProviderFacts, TestResult, writable


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a worker is for."""

    url: str
    profile: str | None
    """The path of a profile.py."""
    select: tuple[str, ...]
    target: str
    """The file or folder with the tests."""
    dump: str
    """The file into which a worker writes where its threads stand when a test takes too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test, before it is run."""

    __test__ = False  # for pytest, which would collect it by its name

    test: str
    requirements: tuple[str, ...]
    statement: str
    """What its docstring, or else its name, says."""
    module: str
    """The last part of the name of its module."""
    unsupported: str | None
    """Why it is not to be run, or None."""


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
    """Whether the provider is at fault, and not what was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Run this test, and dump where the threads stand when it takes longer than `limit_s`."""

    test: str
    limit_s: float


Answer = Collected | Refused | TestResult


def statement_of(function: object, name: str) -> str:
    """Return what a test says of itself: the first paragraph of its docstring, or else its name."""
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
"""How long after the last order a worker may take to end by itself, in seconds; less than its controller would wait."""


class Orders:
    """The lines on `source`, for one thread. Once they have ended, so does the process, even if a test hangs in it."""

    def __init__(self, source: RawIOBase) -> None:
        """`source` is read without a buffer, which a thread that reads for ever could not give back at the end."""
        self._source = source
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        # On a thread of its own: the end of the input must be noticed while a test hangs on the main one.
        Thread(target=self._listen, name="pyjms-tck-orders", daemon=True).start()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines.get, b"")

    def _listen(self) -> None:
        for line in iter(self._source.readline, b""):
            self._lines.put(line)
        self._lines.put(b"")
        Event().wait(_FAREWELL_S)
        # Not `sys.exit`, which on this thread would end the thread alone.
        os._exit(1)
