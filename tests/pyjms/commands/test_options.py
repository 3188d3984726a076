"""Options that mean the same have one name and one form in all commands; those of earlier versions are taken, or say what to write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from pyjms.cli import _add_asked
from pyjms.spi.arguments import span_ms
from pyjms.spi.words import rounded, span_text
from tests.pyjms.demo.command_line import Run

_RENAMED = {"--most", "--listed", "--messages", "--max", "--seconds"}


def _commands(app: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(app, "commands", None)
    if below is None:
        yield words, app
        return
    for name, each in below.items():
        yield from _commands(each, (*words, name))


@pytest.fixture
def every_command() -> dict[tuple[str, ...], dict[str, Any]]:
    """The options of each command of `pyjms` and `pyjms-tck`, by its words."""
    from pyjms_tck.command import app as tck

    app = typer.Typer()
    _add_asked(app, "--help")
    both = {**dict(_commands(typer.main.get_command(app))), **dict(_commands(typer.main.get_command(tck), ("tck",)))}
    return {
        words: {name: option for option in each.params for name in option.opts if name.startswith("--")}
        for words, each in both.items()
    }


def test_no_command_has_a_name_of_its_own_for_what_others_have(
    every_command: dict[tuple[str, ...], dict[str, Any]],
) -> None:
    assert len(every_command) > 40
    for words, options in every_command.items():
        assert not _RENAMED & set(options), words
        for name, option in options.items():
            text = option.help or ""
            assert not name.endswith(("-ms", "-seconds")), f"{words} {name}: spans have their unit in their value"
            assert not any(each in text for each in ("in seconds", "milliseconds")), (
                f"{words} {name}: a span has a unit"
            )
        if "--limit" in options:
            assert "at most" in options["--limit"].help, words
        if "--timeout" in options:
            assert options["--timeout"].metavar == "SPAN", words


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0", 0), ("500ms", 500), ("5s", 5_000), ("1.5s", 1_500), ("2m", 120_000), ("10 seconds", 10_000), ("1 minute", 60_000), ("1d", 86_400_000)],
)  # fmt: skip
def test_spans_have_a_unit(text: str, ms: int) -> None:
    assert span_ms(text) == ms


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("receive", "vm://x", "q", "--timeout", "5"), "5 has no unit; write 5s for seconds, or 5ms for milliseconds"),
        (("send", "vm://x", "q", "x", "--ttl", "60"), "write 60s for seconds"),
        (("forward", "vm://x", "q", "--to", "vm://y", "--idle", "1.5"), "1.5 has no unit"),
        (("pipeline", "archive", "stomp://x", "q", "a", "--every", "10"), "10 has no unit"),
        (("history", "check", "a", "--expiry-allowance", "10"), "10 has no unit"),
        (("receive", "vm://x", "q", "--timeout", "five"), "'five' is no span of time; write 500ms, 30s, 5m, 2h or 1d"),
        (("receive", "vm://x", "q", "--timeout", "5 parsecs"), "is no span of time"),
        (("route", "explain", "rules.toml", "--type", "order"), "the JMSType of the message is --jms-type"),
    ],
)
def test_a_number_without_a_unit_is_refused(run_pyjms: Run, arguments: tuple[str, ...], told: str) -> None:
    code, out, err = run_pyjms(*arguments)
    assert (code, out, told in " ".join(err.split())) == (2, "", True), err


def test_names_of_earlier_versions_and_of_other_commands_are_taken(run_pyjms: Run, jms_broker_url: str) -> None:
    url = jms_broker_url
    run_pyjms("send", url, "orders", "x", "--count", "5")
    assert run_pyjms("browse", url, "orders", "--count", "2")[1].count("\n") == 3, "a heading, and two messages"
    assert run_pyjms("move", url, "orders", "done", "--most", "2")[1] == "moved 2 messages to done\n"
    assert run_pyjms("move", url, "orders", "done", "--most=1")[1] == "moved 1 message to done\n"
    assert run_pyjms("move", url, "orders", "done", "--count", "1")[1] == "moved 1 message to done\n"
    assert run_pyjms("receive", url, "done", "--limit", "2", "--timeout", "1s")[:2] == (0, "x\nx\n")
    assert run_pyjms("bench", url, "--messages", "2", "--requests", "1")[0] == 0
    code, _, err = run_pyjms("stats", url, "--most", "2")
    assert (code, "--most" in err) == (2, True), "a command without such an option takes none"


def test_what_is_the_value_of_an_option_stays_as_it_is(run_pyjms: Run, jms_broker_url: str) -> None:
    run_pyjms("send", jms_broker_url, "orders", "--correlation-id", "--most", "x")
    assert '"JMSCorrelationID": "--most"' in run_pyjms("browse", jms_broker_url, "orders", "--json")[1]
    run_pyjms("send", jms_broker_url, "others", "--", "--most")
    assert run_pyjms("receive", jms_broker_url, "others", "--timeout", "1s")[1] == "--most\n"


@pytest.mark.parametrize("queue", ["orders", "queue:orders"])
def test_queues_are_named_with_and_without_their_kind(run_pyjms: Run, jms_broker_url: str, queue: str) -> None:
    url = jms_broker_url
    for command in (("send", url, queue, "x"), ("browse", url, queue), ("stats", url, queue)):
        assert run_pyjms(*command)[0] == 0
    assert run_pyjms("move", url, queue, f"{queue}.done")[0] == 0
    assert run_pyjms("dead-letters", "list", url, queue)[0] == 0
    assert run_pyjms("bench", url, "--count", "1", "--requests", "1", "--queue", queue)[0] == 0
    assert run_pyjms("purge", url, queue, "--yes")[0] == 0
    assert run_pyjms("receive", url, f"{queue}.done", "--timeout", "1s")[1] == "x\n"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.0123456, "0.0123"), (2.7349, "2.73"), (47.25, "47.2"), (99.99, "100"), (1340.26, "1,340")],
)
def test_measured_numbers_are_rounded(number: float, text: str) -> None:
    assert rounded(number) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(12, "12.0 ms"), (12_345, "12.3 s"), (312_000, "5 min 12 s"), (7_200_000, "2 h"), (90_061_000, "1 d 1 h")],
)
def test_spans_are_told_in_two_units(ms: int, text: str) -> None:
    assert span_text(ms) == text
