"""Each pair of state and event is in the table, or refused with a reason that tells what may come."""

from __future__ import annotations

from itertools import product

import pytest

from pyjms_provider.protocols.stomp.errors import SequenceError
from pyjms_provider.protocols.stomp.server.login import (
    SERVER_TRANSITIONS,
    ServerEvent,
    ServerState,
    next_server_state,
    server_event,
)

_S, _E = ServerState, ServerEvent
FORBIDDEN_TO_SERVERS = {
    # nobody is known yet
    *((_S.NEW, event) for event in (_E.REQUEST, _E.DISCONNECT, _E.ACCEPT)),
    # the client waits for its answer, which is the only thing to be said
    *((_S.LOGGING_IN, event) for event in (_E.CONNECT, _E.REQUEST, _E.DISCONNECT)),
    # a client logs in once
    *((_S.OPEN, event) for event in (_E.CONNECT, _E.ACCEPT)),
    # nothing follows DISCONNECT
    *((_S.LEAVING, event) for event in (_E.CONNECT, _E.REQUEST, _E.DISCONNECT, _E.ACCEPT)),
    *((_S.OVER, event) for event in _E if event is not _E.END),
}


@pytest.mark.parametrize(("state", "event"), list(product(_S, _E)))
def test_a_server_knows_what_may_come(state: ServerState, event: ServerEvent) -> None:
    if (state, event) in FORBIDDEN_TO_SERVERS:
        with pytest.raises(SequenceError, match="must not come now"):
            next_server_state(state, event)
    else:
        assert next_server_state(state, event) is SERVER_TRANSITIONS[state, event]


def test_from_every_state_there_is_a_way_out() -> None:
    assert all(next_server_state(state, _E.END) is _S.OVER for state in _S)


@pytest.mark.parametrize(
    ("command", "event"),
    [("CONNECT", _E.CONNECT), ("STOMP", _E.CONNECT), ("SEND", _E.REQUEST), ("CREDIT", _E.REQUEST), ("NACK", _E.REQUEST),
     ("DISCONNECT", _E.DISCONNECT)],
)  # fmt: skip
def test_commands_of_clients(command: str, event: ServerEvent) -> None:
    assert server_event(command) is event
