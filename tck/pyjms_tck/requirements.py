"""The marks of conformance tests: the requirements that a test checks, and other features that it needs.

Ids and features are checked when tests are collected, so that all mistakes are reported together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import pytest

__all__ = ["needs", "needs_offered", "requirement"]


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test as one that checks the requirements `ids` of the catalogue: it fails when one of them is broken."""
    return pytest.mark.requirement(*ids)


def needs(*features: str) -> pytest.MarkDecorator:
    """Mark a test that uses optional `features` (names of `pyjms.spi.Capability`) besides those of its requirements.

    It is not run if one is missing. The mark is not needed for topics when the test uses the fixture `topic` or
    `make_topic`, nor for the fixture `restart_broker`. Fits `pytest.param(..., marks=needs("TOPICS"))`, too.
    """
    return pytest.mark.needs(*features)


def needs_offered(*features: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark a contract test whose first fixture is None where the provider lacks `features`: the test then does nothing.

    Providers' own test suites import the contract tests, and there nothing reads the mark of `needs`.
    """

    def marked(test: Callable[..., None]) -> Callable[..., None]:
        first = next(iter(signature(test).parameters))

        @wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            if (arguments[0] if arguments else fixtures[first]) is not None:
                test(*arguments, **fixtures)

        made: Callable[..., None] = needs(*features)(run)
        return made

    return marked
