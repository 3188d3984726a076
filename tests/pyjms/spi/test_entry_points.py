"""Runners of routes, and openers of stores of workflows, that others bring and that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from pyjms.spi import routes, workflows
from pyjms.spi.errors import ProviderError
from pyjms.spi.routes import RouteError, find_runner
from pyjms.spi.workflows import WorkflowError, find_opener

FINDING = pytest.mark.parametrize(
    ("find", "module", "error", "kind"),
    [
        (find_runner, routes, RouteError, "RouteRunner"),
        (find_opener, workflows, WorkflowError, "WorkflowRepositoryOpener"),
    ],
)


def broken() -> None:
    raise RuntimeError("the licence file is missing")


@FINDING
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("no_such_module:Thing", r"cannot be imported \(No module named 'no_such_module'\); install"),
        (f"{__name__}:broken", r"cannot be made: RuntimeError: the licence file is missing"),
        (f"{__name__}:not_there", r"cannot be made: AttributeError: .*not_there"),
        ("builtins:dict", r"entry point odd = builtins:dict is no pyjms\.spi\..*\.KIND class"),
    ],
)
def test_what_cannot_be_used_is_told(
    monkeypatch: pytest.MonkeyPatch,
    find: Callable[[str], Any],
    module: Any,
    error: type[ProviderError],
    kind: str,
    value: str,
    told: str,
) -> None:
    point = EntryPoint("odd", value, module.ENTRY_POINT_GROUP)
    monkeypatch.setattr(module, "entry_points", lambda group, name=None: [point] if name in {None, "odd"} else [])
    with pytest.raises(error, match=told.replace("KIND", kind)):
        find("odd")
    with pytest.raises(error, match="there are: odd"):
        find("other")


def test_the_former_names_of_repositories_warn() -> None:
    with pytest.warns(DeprecationWarning, match="is called WorkflowRepository"):
        assert workflows.WorkflowBook is workflows.WorkflowRepository
