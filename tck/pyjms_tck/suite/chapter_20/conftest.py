"""Fixtures for contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from pyjms import ConnectionFactory, JMSContext, JMSRuntimeException

MakeContext = Callable[..., JMSContext]


@pytest.fixture
def make_context(factory: ConnectionFactory) -> Iterator[MakeContext]:
    """Make contexts with the arguments of `ConnectionFactory.create_context`, which are closed after the test."""
    with ExitStack() as opened:

        def make(*arguments: Any) -> JMSContext:
            context = factory.create_context(*arguments)
            opened.callback(_close, context)
            return context

        yield make


def _close(context: JMSContext) -> None:
    with suppress(JMSRuntimeException):  # other tests judge closing
        context.close()


@pytest.fixture
def context(make_context: MakeContext) -> JMSContext:
    """A context that acknowledges automatically."""
    return make_context()
