"""One run from a URL to a report: of the conformance suite, or of the contract of the SPI."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from pyjms.spi.words import installed_version
from pyjms_tck.catalogue import Catalogue, Chapter, Level, Requirement, in_version, load_catalogue, select
from pyjms_tck.results import Report, TestResult, judge
from pyjms_tck.runner.messages import Test, statement_of
from pyjms_tck.runner.pool import Listener, PoolOutcome, Task, run_pool

__all__ = ["SPI", "SPI_TARGET", "SUITE_TARGET", "contract_catalogue", "judge_provider", "judge_spi"]

_PACKAGE = Path(__file__).parent
SUITE_TARGET = str(_PACKAGE / "suite")
SPI_TARGET = str(_PACKAGE / "spi" / "contract.py")
SPI = "the contract of the SPI"
_SPI_HINT = "the docstrings of pyjms.spi.provider say what a provider owes; the page on writing a provider explains it"


async def judge_provider(task: Task, listener: Listener) -> Report:
    """Run the suite. Raises `RunRefusedError`, and `SelectionError` for a selection that matches nothing."""
    catalogue = in_version(load_catalogue(), task.version)
    selected = select(catalogue, task.select)
    outcome = await run_pool(task, listener)
    return _report(f"JMS {task.version}", catalogue, selected, outcome, task)


async def judge_spi(task: Task, listener: Listener) -> Report:
    """Run the contract tests; each test is a requirement of its own. Raises as `judge_provider`."""
    wanted = set(select(contract_catalogue(), task.select))
    # The processes know only the catalogue of JMS, so they run all contract tests.
    outcome = await run_pool(replace(task, select=()), listener, lambda test: _contract_id(test.test) in wanted)
    catalogue = _contract(outcome.collected.tests)
    results = tuple(replace(result, requirements=(_contract_id(result.test),)) for result in outcome.results)
    return _report(SPI, catalogue, tuple(catalogue.requirements), replace(outcome, results=results), task)


def contract_catalogue() -> Catalogue:
    """Return all contract tests, without a provider."""
    # The contract tests are pytest functions, so they are imported only here.
    suite = import_module("pyjms_tck.spi.suite")
    return _contract(
        tuple(
            Test(
                test=f"contract.py::{name}",
                requirements=(),
                statement=statement_of(function, name),
                module=function.__module__.rpartition(".")[2],
                unsupported=None,
            )
            for name, function in vars(suite).items()
            if name.startswith("test_")
        )
    )


def _report(suite: str, catalogue: Catalogue, selected: tuple[str, ...], outcome: PoolOutcome, task: Task) -> Report:
    results: tuple[TestResult, ...] = outcome.results
    return Report(
        suite=suite,
        suite_version=installed_version(),
        provider=outcome.collected.provider,
        selection=task.select,
        chapters=catalogue.chapters,
        judgements=judge(catalogue, selected, results, outcome.collected.lacks),
        given_up=outcome.given_up,
    )


def _contract(tests: tuple[Test, ...]) -> Catalogue:
    """Return the contract tests as a catalogue: a chapter for each of their modules."""
    modules = list(dict.fromkeys(test.module for test in tests))
    requirements = {
        (id := _contract_id(test.test)): Requirement(
            id=id,
            section=test.module,
            statement=test.statement,
            level=Level.REQUIRED,
            hint=_SPI_HINT,
            chapter=modules.index(test.module) + 1,
        )
        for test in tests
    }
    chapters = {
        number: Chapter(number=number, title=module.removesuffix("_suite").capitalize())
        for number, module in enumerate(modules, 1)
    }
    return Catalogue(requirements=MappingProxyType(requirements), chapters=MappingProxyType(chapters))


def _contract_id(test: str) -> str:
    """Return the id of a contract test: its name, without its parameters."""
    return test.rpartition("::")[2].partition("[")[0].removeprefix("test_").replace("_", "-")
