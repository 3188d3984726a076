"""Runs, for each mutant, the tests of the requirements that it is meant to break, and says which of them failed.

One session of pytest collects the suite once; its tests are then run again and again, each mutant with a broker of its
own. First, every test that will be used runs without a mutant, and must pass: a test that fails anyway kills nothing.
"""

from __future__ import annotations

import logging
import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from pyjms.spi.errors import ProviderError
from pyjms.spi.registry import find_provider, register_provider
from pyjms.spi.url import ProviderUrl
from pyjms_tck.environment import Environment
from pyjms_tck.fixtures import ENVIRONMENT, OBSERVED
from pyjms_tck.judge_plugin import _RESULT, requirements_of, test_name
from tests.tck.broken.guarded import SCHEME, GuardedProvider
from tests.tck.broken.mutation import Mutant, MutationError
from tests.tck.broken.profile import MutantProfile

__all__ = ["Trial", "Verdicts", "judge"]

SUITE = Path(__file__).parents[3] / "tck" / "pyjms_tck" / "suite"
_PROFILE = Path(__file__).parent / "profile.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of one mutant."""

    mutant: Mutant
    killed_by: dict[str, tuple[str, ...]]
    """For each requirement that the mutant breaks, the tests that failed."""

    @property
    def missed(self) -> tuple[str, ...]:
        """The requirements whose tests noticed nothing."""
        return tuple(id for id, tests in self.killed_by.items() if not tests)


@dataclass(slots=True, kw_only=True)
class Verdicts:
    """What came out of a run."""

    trials: list[Trial]
    unsound: list[str]
    """Tests that fail without any mutant."""
    stale: list[str]
    """Mutants that do not fit the source any more, and why."""
    killers: dict[str, list[str]]
    """For each function of the suite, the mutants that it was seen to notice; at least one that it notices is looked for."""


class _OutOfTimeError(BaseException):
    """A test takes too long."""


def judge(mutants: Sequence[Mutant], *, verbose: bool = False) -> Verdicts:
    """Try all mutants."""
    plugin = _Trials(mutants, verbose=verbose)
    register_provider(SCHEME, GuardedProvider())
    logging.disable(logging.CRITICAL)  # a broken provider has much to say
    try:
        return _run(plugin)
    finally:
        logging.disable(logging.NOTSET)
        register_provider(SCHEME, None)


def _run(plugin: _Trials) -> Verdicts:
    with tempfile.TemporaryDirectory() as folder:
        plugin.folder = folder
        url = plugin.url("collect", durable=True)
        code = pytest.main(
            [
                *(str(SUITE), "--jms-url", url, "--jms-profile", str(_PROFILE)),
                *(
                    "--import-mode=importlib",
                    "-o",
                    "addopts=",
                    "-o",
                    "filterwarnings=",
                    "--rootdir",
                    str(SUITE.parents[2]),
                ),
                *(
                    "-p",
                    "no:randomly",
                    "-p",
                    "no:timeout",
                    "-p",
                    "no:cacheprovider",
                    "-p",
                    "no:xdist",
                    "-p",
                    "no:hypothesispytest",
                ),
                *("-p", "no:terminal", "-p", "no:logging"),
            ],
            [plugin],
        )
        find_provider(SCHEME).stop_broker(ProviderUrl.parse(url))
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise RuntimeError(f"the suite could not be run: {code!r}")
    return plugin.verdicts


class _Trials:
    """The plugin whose loop takes the place of pytest's."""

    def __init__(self, mutants: Sequence[Mutant], *, verbose: bool) -> None:
        self.folder = ""
        self.verdicts = Verdicts(trials=[], unsound=[], stale=[], killers={})
        self._mutants = mutants
        self._verbose = verbose
        self._failed = False

    def url(self, name: str, *, durable: bool) -> str:
        """Return the URL of a broker that nobody has used."""
        return f"{SCHEME}://mutant-{name}" + (f"?store=sqlite:///{self.folder}/{name}.db" if durable else "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run without a mutant, then with each."""
        tests: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            self.verdicts.killers[_function_of(item)] = []
            for id in requirements_of(item):
                tests.setdefault(id, []).append(item)
        for durable in (False, True):
            ids = {id for each in self._mutants if each.durable is durable for id in each.breaks}
            used = {item: None for id in sorted(ids) for item in tests.get(id, ())}
            with self._broker(session.config, f"none-{durable}", durable=durable):
                failing = [test_name(item) for item in used if self._fails(item) and self._fails(item)]
            self.verdicts.unsound += failing
        for number, each in enumerate(self._mutants):
            with self._broker(session.config, str(number), durable=each.durable):
                self.verdicts.trials.append(trial := self._try(each, tests))
            if self._verbose:
                print(f"{number + 1}/{len(self._mutants)} {each.name}: missed {trial.missed or 'nothing'}", flush=True)  # noqa: T201
        return True

    @contextmanager
    def _broker(self, config: pytest.Config, name: str, *, durable: bool) -> Iterator[None]:
        """Let the tests use a new broker while the block runs."""
        profile = MutantProfile()
        config.stash[ENVIRONMENT] = Environment(self.url(name, durable=durable), profile)
        try:
            yield
        finally:
            with suppress(ProviderError):
                profile.restart_broker()

    def _try(self, mutant: Mutant, tests: dict[str, list[pytest.Item]]) -> Trial:
        killed: dict[str, list[str]] = {id: [] for id in mutant.breaks}
        unsound = set(self.verdicts.unsound)
        items = {item: None for id in mutant.breaks for item in tests.get(id, ()) if test_name(item) not in unsound}
        try:
            with mutant.broken():
                for item in items:
                    concerned = [id for id in requirements_of(item) if id in killed]
                    killers = self.verdicts.killers[_function_of(item)]
                    if (killers and all(killed[id] for id in concerned)) or not self._fails(item):
                        continue
                    if mutant.name not in killers:
                        killers.append(mutant.name)
                    for id in concerned:
                        killed[id].append(test_name(item))
        except MutationError as error:
            self.verdicts.stale.append(f"{mutant.name}: {error}")
        return Trial(mutant=mutant, killed_by={id: tuple(names) for id, names in killed.items()})

    def _fails(self, item: pytest.Item) -> bool:
        """Run one test, and say whether it failed: in whatever phase, or by not ending."""
        stash: Any = item.stash  # of what the test left there when it ran before
        for key in (_RESULT, OBSERVED):
            if key in stash:
                del stash[key]
        try:
            with _limit(MutantProfile.limit_s):
                reports = runtestprotocol(item, log=False, nextitem=None)
        except _OutOfTimeError:
            _abandon(item)
            return True
        return any(report.failed for report in reports)


def _function_of(item: pytest.Item) -> str:
    return test_name(item).partition("[")[0]


def _abandon(item: pytest.Item) -> None:
    """Take down what a test that was interrupted left of its fixtures."""
    try:
        with _limit(MutantProfile.limit_s):
            item.session._setupstate.teardown_exact(None)
    except BaseException as error:  # whatever a broken provider does when it is closed
        if isinstance(error, KeyboardInterrupt):
            raise
        item.session._setupstate.stack.clear()


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _OutOfTimeError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def missing(trials: Iterable[Trial]) -> list[str]:
    """Return ``mutant: requirement`` for each that should have been noticed and was not."""
    return [f"{trial.mutant.name}: {id}" for trial in trials for id in trial.missed]
