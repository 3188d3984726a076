"""The controller: assigns tests to workers, limits their time, and replaces workers that hang or crash.

Each test has its limit. A worker that exceeds it is killed and the test has failed; the next test gets a new worker.
After `give_up_after` such tests the rest is not run: a provider that always hangs would take hours.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pyjms.spi.words import counted
from pyjms_tck.catalogue import Version
from pyjms_tck.results import NOT_RUN, Failure, Outcome, TestResult, without_places
from pyjms_tck.runner.messages import Collected, Job, Order, Refused, Test, answer_from_line, to_line

# Parses the output of `faulthandler` for a test that takes too long: the stack of each thread.

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in ')
_SECTION = re.compile(r"^(?=(?:Current thread|Thread) 0x)", re.MULTILINE)
_OF_ORDERS = re.compile(r'File "[^"]*pyjms_tck.runner.messages\.py", line \d+ in ')
# Frames of the test machinery, which say nothing about the provider.
_MACHINERY = re.compile(r'File "[^"]*(_pytest|pluggy|pyjms_tck/runner|pyjms_tck.runner|<frozen)[^"]*", line \d+ in ')


def describe_hang(dump: str) -> tuple[str | None, str]:
    """Return file and line of the conformance test that hangs, if found, and the stacks of all threads."""
    text = without_places("".join(section for section in _SECTION.split(dump) if not _waits_for_orders(section)))
    lines = [line for line in text.splitlines() if not _MACHINERY.search(line) and not line.startswith("Timeout")]
    where = None
    for line in lines:
        match = _FRAME.search(line)
        if match and "pyjms_tck/" in match["file"].replace("\\", "/"):
            where = f"{match['file'].rpartition('pyjms_tck/')[2]}:{match['line']}"
            # The innermost frame of a test is the best place; otherwise a helper of the suite.
            if "/test_" in match["file"] or "_suite" in match["file"]:
                break
    return where, "\n".join(lines).strip()


def _waits_for_orders(section: str) -> bool:
    """Say whether this is the worker's own thread, which does not belong to the test."""
    return bool(_OF_ORDERS.search(section.partition("\n")[2].partition("\n")[0]))


GIVE_UP_AFTER = 10
_GRACE_S = 1.0
"""How long after its limit a test may still end: the worker writes its stacks before it is killed."""
_FAREWELL_S = 5.0
_OUTPUT_MAX = 4000
_LINE_BYTES_MAX = 64 * 2**20


class RunRefusedError(Exception):
    """No test can be run; the text says why."""

    def __init__(self, text: str, *, is_unreachable: bool) -> None:
        super().__init__(text)
        self.is_unreachable = is_unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A run's tests and limits."""

    url: str
    profile: str | None
    select: tuple[str, ...]
    target: str
    workers: int | None = None
    """The number of processes; None: as many as the profile and the processors allow."""
    limit_s: float | None = None
    """The time limit of a test; None: the profile's."""
    version: Version = Version.V2_0
    """The version of JMS by which the provider is judged."""
    start_limit_s: float = 60.0
    """The time limit for a process to connect and collect the tests."""
    give_up_after: int = GIVE_UP_AFTER
    """The number of tests that hung, or whose process died, after which the rest is not run."""


class Listener(Protocol):
    """Receives the progress of the run."""

    def on_collected(self, collected: Collected) -> None:
        """The provider answers and the tests are known."""
        ...

    def on_result(self, result: TestResult) -> None:
        """A test has ended, or is not supported."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOutcome:
    """The results of a run."""

    collected: Collected
    results: tuple[TestResult, ...]
    given_up: str | None


class _StuckError(Exception):
    """The worker did not answer in time, or died."""


class _Worker:
    """One worker process."""

    def __init__(self, task: Task, folder: Path, number: int) -> None:
        self._task = task
        self._dump = folder / f"threads-{number}.txt"
        self._log = folder / f"output-{number}.txt"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> Collected:
        """Start the process. Raises `RunRefusedError`."""
        # Variables such as PYTEST_ADDOPTS belong to the user's own pytest; they would change the worker's tests.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        # A file, not a pipe: nothing reads it meanwhile, and a full pipe would block the worker.
        with self._log.open("wb") as log:
            # -P: modules must not be imported from the working directory. The default limit of a line is 64 KiB, which
            # the list of all tests exceeds.
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "pyjms_tck.runner.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONUTF8": "1"},
                limit=_LINE_BYTES_MAX,
            )
        task = self._task
        job = Job(
            url=task.url,
            profile=task.profile,
            select=task.select,
            version=task.version,
            target=task.target,
            dump=str(self._dump),
        )
        try:
            answer = await self._ask(to_line(job), task.start_limit_s, f"was not ready within {task.start_limit_s:g} s")
        except _StuckError as error:
            text = f"the provider could not be looked at: {error}\n{self._last_output()}"
            raise RunRefusedError(text.rstrip(), is_unreachable=True) from error
        if isinstance(answer, Refused):
            raise RunRefusedError(answer.text, is_unreachable=answer.is_unreachable)
        assert isinstance(answer, Collected)
        return answer

    async def run(self, test: Test, limit_s: float) -> TestResult:
        """Return the result of a test. Raises `_StuckError`."""
        answer = await self._ask(
            to_line(Order(test=test.test, limit_s=limit_s)), limit_s + _GRACE_S, f"did not end within {limit_s:g} s"
        )
        assert isinstance(answer, TestResult)
        return answer

    async def _ask(self, line: str, limit_s: float, late: str) -> Collected | Refused | TestResult:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line.encode())
            await process.stdin.drain()
            answer = await asyncio.wait_for(process.stdout.readline(), limit_s)
        # Before OSError, of which it is a subclass.
        except TimeoutError as error:
            raise _StuckError(f"it {late}") from error
        except OSError as error:
            raise _StuckError(f"its process ended: {error}") from error
        if not answer:
            raise _StuckError(f"its process ended with code {await process.wait()}")
        return answer_from_line(answer)

    def traces(self) -> str:
        """Return the stacks of the threads at the time limit, or the process's last output."""
        return self._dump.read_text("utf-8", "replace") or self._last_output()

    def _last_output(self) -> str:
        return self._log.read_text("utf-8", "replace")[-_OUTPUT_MAX:]

    async def end(self) -> None:
        """End the process: by the end of its input, or by force."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        # A worker ends with its input, and closes its connections then; killed, it would leave them to the broker.
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _FAREWELL_S)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End the process now."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


async def collect(task: Task) -> Collected:
    """Return the tests without running them. Raises `RunRefusedError`."""
    with tempfile.TemporaryDirectory(prefix="pyjms-tck-") as folder:
        worker = _Worker(task, Path(folder), 1)
        try:
            return await worker.start()
        finally:
            await worker.end()


async def run_pool(task: Task, listener: Listener, is_wanted: Callable[[Test], bool] | None = None) -> PoolOutcome:
    """Run the tests of `task`, or those that `is_wanted` selects. Raises `RunRefusedError`. Cancelling it ends the
    processes.
    """
    with tempfile.TemporaryDirectory(prefix="pyjms-tck-") as folder:
        return await _Pool(task, listener, Path(folder), is_wanted).run()


class _Pool:
    """One run: the waiting tests, the results so far, and the number of hangs."""

    def __init__(
        self, task: Task, listener: Listener, folder: Path, is_wanted: Callable[[Test], bool] | None = None
    ) -> None:
        self._task = task
        self._is_wanted = is_wanted
        self._listener = listener
        self._folder = folder
        self._waiting: deque[Test] = deque()
        self._results: list[TestResult] = []
        self._stuck = 0
        self._workers = 0
        self._ready = 0
        """Processes that are connected to the provider."""
        self._given_up: str | None = None

    async def run(self) -> PoolOutcome:
        # One worker alone at first: it returns the tests, and how many processes the profile allows.
        first = self._new_worker()
        try:
            collected = await first.start()
        except (Exception, asyncio.CancelledError):
            await first.kill()
            raise
        if self._is_wanted is not None:
            collected = replace(collected, tests=tuple(filter(self._is_wanted, collected.tests)))
        self._listener.on_collected(collected)
        self._ready = 1
        for test in collected.tests:
            if test.unsupported:
                self._add(_not_supported(test))
            else:
                self._waiting.append(test)
        self._limit_s = self._task.limit_s or collected.limit_s
        lanes = self._task.workers or min(collected.parallel, os.cpu_count() or 1)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lane(first))
            for _ in range(min(lanes, len(self._waiting)) - 1):
                group.create_task(self._lane(None))
        return PoolOutcome(collected=collected, results=tuple(self._results), given_up=self._given_up)

    def _new_worker(self) -> _Worker:
        self._workers += 1
        return _Worker(self._task, self._folder, self._workers)

    def _add(self, result: TestResult) -> None:
        self._results.append(result)
        self._listener.on_result(result)

    async def _lane(self, worker: _Worker | None) -> None:
        """Run tests, one after the other, until none is left."""
        try:
            while self._waiting:
                if worker is None:
                    worker = self._new_worker()
                    try:
                        await worker.start()
                        self._ready += 1
                    except RunRefusedError as error:
                        await worker.kill()
                        if self._ready:
                            return  # the provider serves one process at a time, or fewer than planned
                        self._give_up(f"the provider cannot be reached any more: {error}")
                    continue  # another lane may have taken the last test meanwhile
                # No lock: all lanes run on one event loop, and there is no await between the check and this line.
                test = self._waiting.popleft()
                try:
                    self._add(await worker.run(test, self._limit_s))
                except _StuckError as error:
                    await worker.kill()
                    self._add(_stuck(test, str(error), worker.traces()))
                    # The next test gets a new process: this one was killed, with all the test's state.
                    worker = None
                    self._ready -= 1
                    self._count_stuck()
        except (Exception, asyncio.CancelledError):
            if worker is not None:
                await worker.kill()
            raise
        if worker is not None:
            await worker.end()

    def _count_stuck(self) -> None:
        self._stuck += 1
        if self._stuck >= self._task.give_up_after:
            self._give_up(counted(self._stuck, "test hung or ended its process", "tests hung or ended their process"))

    def _give_up(self, why: str) -> None:
        """Mark the waiting tests as failed without running them."""
        if not self._waiting:
            return
        self._given_up = f"{why}; {counted(len(self._waiting), 'test was', 'tests were')} not run"
        while self._waiting:
            test = self._waiting.popleft()
            self._add(
                _failed(test, Failure(expected=_RUN, seen=f"{NOT_RUN}{self._given_up}", where=test.test, details=""))
            )


_RUN = "the test runs to its end"


def _not_supported(test: Test) -> TestResult:
    return TestResult(
        test=test.test, requirements=test.requirements, outcome=Outcome.NOT_SUPPORTED, reason=test.unsupported
    )


def _failed(test: Test, failure: Failure) -> TestResult:
    return TestResult(test=test.test, requirements=test.requirements, outcome=Outcome.FAILED, failure=failure)


def _stuck(test: Test, problem: str, traces: str) -> TestResult:
    where, details = describe_hang(traces)
    return _failed(test, Failure(expected=_RUN, seen=problem, where=where or test.test, details=details))
