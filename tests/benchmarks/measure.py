"""What the benchmarks share: the message, measuring two things in turn, and printing their ratio.

One message is 1 KiB of text with ten typed properties. All figures of one line come from one run: A and B alternate,
five times each, and their medians are compared, so that other load on the machine meets both.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from pyjms.api.message import TextMessage
from pyjms.api.session import Session
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId

TEXT = ("The quick brown fox jumps over the lazy dog. " * 23)[:1024]
PROPERTIES: dict[str, object] = {
    "i1": 1,
    "i2": -20000,
    "i3": 2**31 - 1,
    "s1": "alpha",
    "s2": "some longer property value",
    "s3": "EUR",
    "b1": True,
    "b2": False,
    "d1": 3.14159,
    "d2": -1e-9,
}
ENVELOPE = Envelope(
    destination=Address(AddressKind.QUEUE, "orders"),
    message_id=MessageId("ID:bench-1-1-1"),
    timestamp_ms=1_767_323_045_678,
    expiration_ms=0,
    delivery_mode=2,
    priority=4,
    correlation_id=None,
    reply_to=None,
    jms_type=None,
    properties=PROPERTIES,  # type: ignore[arg-type]  # plain ints, floats, strings and booleans, as they are stored
    body_kind=BodyKind.TEXT,
    body=TEXT,
)
"""The message as it crosses the SPI."""
REPEATS = 5


def make_message(session: Session, text: str = TEXT) -> TextMessage:
    """Make the message of all benchmarks, through the typed setters."""
    message = session.create_text_message(text)
    message.set_int_property("i1", 1)
    message.set_int_property("i2", -20000)
    message.set_int_property("i3", 2147483647)
    message.set_string_property("s1", "alpha")
    message.set_string_property("s2", "some longer property value")
    message.set_string_property("s3", "EUR")
    message.set_boolean_property("b1", True)
    message.set_boolean_property("b2", False)
    message.set_double_property("d1", 3.14159)
    message.set_double_property("d2", -1e-9)
    return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Medians of two measurements of one run, in the same unit."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Ours divided by theirs."""
        return self.ours / self.theirs


def compare(ours: Callable[[], float], theirs: Callable[[], float]) -> Comparison:
    """Measure both in turn, `REPEATS` times, after one unmeasured round of each."""
    ours()
    theirs()
    results: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS):
        for measure, into in zip((ours, theirs), results, strict=True):
            gc.collect()
            into.append(measure())
    return Comparison(ours=statistics.median(results[0]), theirs=statistics.median(results[1]))


def report(
    what: str, figure: float, *, least: float | None = None, most: float | None = None, detail: str = ""
) -> bool:
    """Print one line; return whether the figure keeps its limit."""
    good = (least is None or figure >= least) and (most is None or figure <= most)
    limit = f"at least {least:g}" if least is not None else f"at most {most:g}"
    print(f"{'ok  ' if good else 'MISS'} {what}: {figure:.3g} ({limit}){'; ' + detail if detail else ''}", flush=True)
    return good
