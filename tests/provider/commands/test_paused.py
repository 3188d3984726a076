"""Commands that take messages say so when a queue hands out none of those that it has."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pyjms_provider.serving.served_broker import ServedBroker
from tests.pyjms.demo.command_line import Run
from tests.system.network.served import anonymous_broker, make_queue

LEFT = "2 messages are there still, and not handed out: the queue is paused"


@pytest.fixture
def broker() -> Iterator[ServedBroker]:
    """A broker with a paused queue that has two messages."""
    with anonymous_broker() as broker:
        make_queue(broker, name="orders", paused=True)
        yield broker


@pytest.fixture
def url(broker: ServedBroker, run_pyjms: Run) -> str:
    url = broker.addresses()[0]
    assert run_pyjms("send", url, "orders", "x", "--count", "2")[0] == 0
    return url


def test_purge_does_not_say_that_it_is_done(run_pyjms: Run, url: str) -> None:
    code, out, err = run_pyjms("purge", url, "orders", "--yes")
    assert (code, out) == (1, "removed 0 messages\n")
    assert LEFT in err
    assert run_pyjms("purge", url, "nothing-there", "--yes") == (0, "removed 0 messages\n", "")


@pytest.mark.parametrize("most", [(), ("--limit", "1")])
def test_move_does_not_say_that_it_is_done(run_pyjms: Run, url: str, most: tuple[str, ...]) -> None:
    code, out, err = run_pyjms("move", url, "orders", "other", "--json", *most)
    assert (code, json.loads(out)["moved"]) == (1, 0)
    assert LEFT in err
    assert run_pyjms("move", url, "nothing-there", "other")[0] == 0
