"""What others wrote steers no terminal, wherever a command shows it."""

from __future__ import annotations

import pytest

from pyjms import JMSException
from pyjms.commands import connecting as reporting
from pyjms.spi.terminal import note
from tests.provider.clients.stomp.fake_broker import FakeBroker
from tests.pyjms.demo.command_line import Run

_EVIL = "\x1b[2J\x9b2J\x07"
_SPELT_OUT = "\\x1b[2J\\x9b2J\\x07"


def _assert_harmless(shown: str) -> None:
    assert _SPELT_OUT in shown.replace("\n", "")
    assert all(each.isprintable() or each == "\n" for each in shown)


def test_the_text_of_an_error_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Brokers write what an ERROR frame says, and it becomes an exception's text."""
    with pytest.raises(Exception, match="1"), reporting.errors_told("send"):
        raise JMSException(f"the broker said: {_EVIL}[red]")
    shown = capsys.readouterr().err
    _assert_harmless(shown)
    assert shown == f"pyjms send: the broker said: {_SPELT_OUT}[red]\n"


def test_a_note_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    note(f"the connection was lost: {_EVIL}")
    _assert_harmless(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("send", f"vm://{_EVIL}", "q", "x"), 2),
        (("history", "check", f"nowhere{_EVIL}"), 2),
        (("history", "check", "--without", _EVIL, "."), 2),
        (("demo", f"nowhere{_EVIL}.csv"), 2),
        (("route", "check", f"nowhere{_EVIL}.toml"), 2),
        (("broker", "check", f"nowhere{_EVIL}.toml"), 2),
    ],
)
def test_what_a_command_was_given_steers_no_terminal(run_pyjms: Run, arguments: tuple[str, ...], code: int) -> None:
    found, out, err = run_pyjms(*arguments)
    assert found == code
    _assert_harmless(out + err)


def test_what_a_command_has_done_steers_no_terminal(run_pyjms: Run) -> None:
    code, out, err = run_pyjms("send", "vm://terminal", f"q{_EVIL}", "x")
    assert (code, err) == (0, "")
    _assert_harmless(out)


def test_what_a_broker_says_steers_no_terminal(run_pyjms: Run) -> None:
    with FakeBroker(refused={"SEND": f"no such queue {_EVIL}"}) as broker:
        code, out, err = run_pyjms("send", broker.url, "q", "x")
    assert (code, out) == (1, "")
    _assert_harmless(err)


def test_the_name_of_a_queue_is_shown_as_it_is(run_pyjms: Run) -> None:
    """Rich has pictures for names between colons."""
    code, out, err = run_pyjms("send", "vm://terminal", "queue:key:x", "x")
    assert (code, err) == (0, "")
    assert out.endswith(" to queue:key:x\n")
