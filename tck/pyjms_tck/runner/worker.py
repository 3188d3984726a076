"""A process that runs tests, one after the other, by orders on standard input: ``python -m pyjms_tck.runner.worker``.

pytest is isolated: it uses no configuration of the working directory, and no other installed plugin. Output of tests
and provider goes to standard error, so that standard output has only answers.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Generator
from io import FileIO
from pathlib import Path
from typing import IO, TextIO

import pytest

from pyjms import JMSException, JMSSecurityException
from pyjms.spi.capability import Capability
from pyjms_tck.catalogue import CatalogueError, SelectionError, Version, in_version, load_catalogue, select
from pyjms_tck.environment import Environment
from pyjms_tck.judge_plugin import PROPERTY, JudgePlugin, requirements_of, test_name
from pyjms_tck.profile import ProfileError, load_profile
from pyjms_tck.results import ProviderFacts, TestResult, lacks_requirement
from pyjms_tck.runner.messages import Answer, Collected, Job, Order, Orders, Refused, Test, statement_of, to_line

PACKAGE = Path(__file__).parents[1]


def main() -> None:
    """Run tests until the input ends."""
    # Output to standard output, also below Python, must not reach the controller; nor may tests read orders.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    source = FileIO(os.dup(0))
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115  open as long as the process
    data = json.loads(source.readline())
    del data["kind"]
    job = Job(**{**data, "select": tuple(data["select"]), "version": Version(data["version"])})
    with Path(job.dump).open("w", encoding="utf-8") as dump:
        _Worker(job, Orders(source), answers, dump).run()


class _Worker:
    """The pytest plugin that executes orders."""

    def __init__(self, job: Job, orders: Orders, answers: TextIO, dump: IO[str]) -> None:
        self._job = job
        self._orders = orders
        self._answers = answers
        self._dump = dump
        self._errors: list[str] = []

    def _answer(self, message: Answer) -> None:
        self._answers.write(to_line(message))
        self._answers.flush()

    def run(self) -> None:
        """Check the provider, collect the tests, and execute orders."""
        try:
            self._environment = Environment(self._job.url, load_profile(self._job.profile))
            select(in_version(load_catalogue(), self._job.version), self._job.select)
        except (ProfileError, SelectionError, CatalogueError) as error:
            self._answer(Refused(text=str(error), is_unreachable=False))
            return
        try:
            self._environment.facts  # noqa: B018  connects
        except JMSException as error:
            hint = (
                "; the profile says as whom: user_name and password" if isinstance(error, JMSSecurityException) else ""
            )
            self._answer(Refused(text=f"cannot connect to the provider: {error}{hint}", is_unreachable=True))
            return
        pytest.main(self._arguments(), plugins=[self])
        if self._errors:
            text = "the suite cannot be collected:\n" + "\n".join(self._errors)
            self._answer(Refused(text=text, is_unreachable=False))

    def _arguments(self) -> list[str]:
        return [
            *("-c", str(PACKAGE / "runner" / "worker.ini"), "--rootdir", str(PACKAGE), "--import-mode=importlib"),
            # The cache would write into the package's folder; pytest's faulthandler
            # would disarm the timer of `pytest_runtestloop`.
            *("-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "pyjms_tck.plugin", "-q", "--tb=short"),
            *("--jms-url", self._job.url),
            *(["--jms-profile", self._job.profile] if self._job.profile else []),
            *(part for text in self._job.select for part in ("--jms-select", text)),
            *("--jms-version", str(self._job.version)),
            self._job.target,
        ]

    # Hooks of pytest

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record collection errors."""
        if report.failed:
            self._errors.append(f"{report.nodeid}\n{report.longreprtext}")

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self) -> Generator[None, None, None]:
        """Record errors in the marks of tests."""
        try:
            yield
        except pytest.UsageError as error:
            self._errors.append(str(error))
            raise

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Execute orders until the input ends."""
        if self._errors:
            return True
        judge = session.config.pluginmanager.getplugin("pyjms_tck.judge")
        self._answer(self._collected(session, judge))
        items = {test_name(item): item for item in session.items}
        for line in self._orders:
            data = json.loads(line)
            order = Order(test=data["test"], limit_s=data["limit_s"])
            # This timer is a thread in C that needs no interpreter lock: it writes even if a test hangs in C code.
            faulthandler.dump_traceback_later(order.limit_s, file=self._dump)
            item = items[order.test]
            # Tests share nothing: fixtures of all scopes end with each.
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            faulthandler.cancel_dump_traceback_later()
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send the result of a test when its last phase has ended."""
        for name, value in report.user_properties:
            # The teardown's report comes last, and has the worst of the three phases.
            if name == PROPERTY and report.when == "teardown":
                assert isinstance(value, dict)
                self._answer(TestResult.from_data(value))

    def _collected(self, session: pytest.Session, judge: JudgePlugin) -> Collected:
        profile, facts, catalogue = self._environment.profile, self._environment.facts, load_catalogue()
        lacks = {
            id: reason
            for id, requirement in catalogue.requirements.items()
            if (reason := lacks_requirement(requirement, facts.capabilities, profile))
        }
        tests = tuple(
            Test(
                test=test_name(item),
                requirements=requirements_of(item),
                statement=_statement(item),
                module=_module(item),
                unsupported=judge.unsupported(item, catalogue, facts.capabilities),
            )
            for item in session.items
        )
        provider = ProviderFacts(
            title=profile.title or self._environment.shown_url,
            name=facts.name,
            version=facts.version,
            jms_version=facts.jms_version,
            capabilities=tuple(str(one.name) for one in Capability if one in facts.capabilities),
        )
        return Collected(
            provider=provider, lacks=lacks, tests=tests, limit_s=profile.limit_s, parallel=profile.parallel
        )


def _module(item: pytest.Item) -> str:
    return str(getattr(getattr(item, "function", None), "__module__", "")).rpartition(".")[2]


def _statement(item: pytest.Item) -> str:
    return statement_of(getattr(item, "function", None), str(getattr(item, "originalname", item.name)))


if __name__ == "__main__":
    main()
