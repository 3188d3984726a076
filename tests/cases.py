"""Many cases of one rule in one test: where a case takes microseconds, a test of its own costs a hundred times as much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

Case = TypeVar("Case")


def each_of(cases: Sequence[Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Have a test be called with each of the cases, its first argument; the error tells which one fails. Its fixtures are the same for all."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            assert cases
            for case in cases:
                try:
                    test(case, **fixtures)
                except BaseException as error:
                    error.add_note(f"the case is {case!r:.400}")
                    raise

        expected = signature(test)
        run.__signature__ = expected.replace(parameters=list(expected.parameters.values())[1:])  # type: ignore[attr-defined]  # what pytest reads
        return run

    return decorate
