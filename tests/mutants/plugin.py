"""A pytest plugin for `tests.mutants.sample`: imports one module with a fault in it, or writes down how long each test takes.

It is loaded with ``-p tests.mutants.plugin``, before any module of the product is imported.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import pytest

MUTANT = "PYJMS_MUTANT"
"""The variable with a mutant as JSON: the module's name, and the file with its changed source."""
DURATIONS = "PYJMS_DURATIONS"
"""The variable with the file that gets the seconds of each test, as JSON."""

_durations: dict[str, float] = {}


class _MutantLoader(SourceFileLoader):
    """Loads a module from its own place, with the source of the mutant."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        """Compile the mutant; compiled code of the module that lies about is not used."""
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _MutantFinder(MetaPathFinder):
    """Finds the one module that is a mutant."""

    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the mutant, or None for all other modules."""
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _MutantLoader(fullname, spec.origin, self._source)
        return spec


if given := os.environ.get(MUTANT):
    mutant = json.loads(given)
    assert mutant["module"] not in sys.modules, "the plugin was loaded too late"
    sys.meta_path.insert(0, _MutantFinder(mutant["module"], Path(mutant["source"]).read_text(encoding="utf-8")))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how long a test took, with its fixtures."""
    _durations[report.nodeid] = _durations.get(report.nodeid, 0.0) + report.duration


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the seconds of all tests, in the process that has them all."""
    file = os.environ.get(DURATIONS)
    if file and not hasattr(session.config, "workerinput"):
        Path(file).write_text(json.dumps(_durations), encoding="utf-8")
