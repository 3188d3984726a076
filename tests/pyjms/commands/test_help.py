"""What the help of commands shows: arguments as they are typed, and times with their unit."""

from __future__ import annotations

import pytest

from tests.pyjms.demo.command_line import Run


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("stats", "[QUEUE]..."),
        ("story", "[ID]"),
        ("flow run", "[FILE]..."),
        ("flow start", "[JSON]"),
        ("broker init", "[DIRECTORY]"),
        ("broker check", "[FILE]"),
        ("manage create", "[NAME=VALUE]..."),
        ("pipeline report", "[DIR]..."),
    ],
)
def test_what_may_be_left_out_stands_in_one_pair_of_brackets(run_pyjms: Run, command: str, usage: str) -> None:
    code, out, _ = run_pyjms(*command.split(), "--help")
    line = " ".join(out.partition("\n\n")[0].split())
    assert (code, usage in line, "[[" in line) == (0, True, False), line


@pytest.mark.parametrize("command", ["", "dead-letters", "flow", "pipeline", "broker", "manage"])
def test_a_list_of_commands_breaks_off_in_no_sentence(
    run_pyjms: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run_pyjms(*command.split(), "--help")
    listed = out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert (code, bool(listed), "..." in listed) == (0, True, False), listed
    assert max(map(len, listed.splitlines())) <= 80


@pytest.mark.parametrize("command", ["forward", "route run"])
def test_a_time_that_is_not_given_is_shown_with_its_unit(run_pyjms: Run, command: str) -> None:
    out = " ".join(run_pyjms(*command.split(), "--help")[1].split())
    assert "tell how it goes so often. [default: (10s)]" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("send", "vm://x", "q", "b", "--type", "foo"),
            "'--type': 'foo' is not one of 'text', 'bytes', 'map', 'stream'",
        ),
        (("send", "vm://x", "q", "b", "--count", "many"), "'--count': "),
        (("demo", "--failure-rate", "2"), "'--failure-rate': "),
    ],
)
def test_a_wrong_argument_is_told_in_plain_words(run_pyjms: Run, arguments: tuple[str, ...], told: str) -> None:
    code, out, err = run_pyjms(*arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert [each for each in ("Value error", "Input", "parse string") if each in err] == []
