"""OpenTelemetry: spans for sends and receives, and their context in the messages, from program to program.

Nothing of OpenTelemetry is imported before `instrument` is called, or the environment has ``PYJMS_OTEL=1``. It needs
the extra ``otel`` (opentelemetry-api); the application configures the export of spans in OpenTelemetry's SDK.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from pyjms.runtime.tracing import trace_with

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import TracerProvider

    from pyjms.api.message import Message

__all__ = ["WANTED", "context_of", "instrument", "instrument_if_wanted", "processing", "uninstrument"]

_log = logging.getLogger(__name__)

WANTED: Final = "PYJMS_OTEL"
"""The environment variable that is ``1`` to trace programs that do not call `instrument`."""
_MISSING: Final = "opentelemetry-api is not installed: pip install 'pyjms-messaging[otel]'"


def instrument(tracer_provider: TracerProvider | None = None) -> None:
    """Trace all producers and consumers created from now on. May be repeated.

    `tracer_provider`: the source of spans; None: OpenTelemetry's global one. Raises ImportError without the extra
    ``otel``.
    """
    try:
        from pyjms.telemetry.tracer import OpenTelemetryTracer
    except ImportError as error:
        raise ImportError(_MISSING) from error
    trace_with(OpenTelemetryTracer(tracer_provider))


def instrument_if_wanted(environment: Mapping[str, str] = os.environ) -> None:
    """Call `instrument` if the environment has ``PYJMS_OTEL=1``; `import pyjms` calls this once. Without the extra, log
    that and go on.
    """
    if environment.get(WANTED) != "1":
        return
    try:
        instrument()
    # An environment variable must not keep a program from starting.
    except ImportError as error:
        _log.warning("PYJMS-OTEL-1 %s=1, but messages are not traced: %s", WANTED, error)


def uninstrument() -> None:
    """Stop tracing, also for existing producers and consumers."""
    trace_with(None)


def context_of(message: Message) -> Context:
    """Return the context that a message carries; an empty one if it carries none. Raises ImportError as `instrument`."""
    try:
        from pyjms.telemetry.tracer import carried_context
    except ImportError as error:
        raise ImportError(_MISSING) from error
    return carried_context(message)


def processing(message: Message) -> AbstractContextManager[object]:
    """Return a span for the work on a message that `receive` returned: it continues the trace of its sender.

    ``with processing(message): ...``. A listener has such a span by itself. Raises ImportError as `instrument`.
    """
    try:
        from pyjms.telemetry.tracer import process_span
    except ImportError as error:
        raise ImportError(_MISSING) from error
    return process_span(message)
