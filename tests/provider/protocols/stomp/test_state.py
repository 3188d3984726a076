"""Each pair of state and event is in the table, or refused with a reason that tells what may come."""

from __future__ import annotations

from itertools import product

import pytest

from pyjms_provider.protocols.stomp.errors import SequenceError
from pyjms_provider.protocols.stomp.state import (
    CLIENT_TRANSITIONS,
    SERVER_TRANSITIONS,
    ClientEvent,
    ClientState,
    ServerEvent,
    ServerState,
    client_event,
    next_client_state,
    next_server_state,
    server_event,
)

_S, _E, _C, _F = ServerState, ServerEvent, ClientState, ClientEvent
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
FORBIDDEN_TO_CLIENTS = {
    *((_C.NEW, event) for event in _F if event not in (_F.CONNECT, _F.END)),
    *((_C.CONNECTING, event) for event in (_F.CONNECT, _F.REQUEST, _F.DISCONNECT, _F.ANSWER)),
    *((_C.OPEN, event) for event in (_F.CONNECT, _F.CONNECTED)),
    *((_C.LEAVING, event) for event in (_F.CONNECT, _F.REQUEST, _F.DISCONNECT, _F.CONNECTED)),
    *((_C.OVER, event) for event in _F if event is not _F.END),
}


@pytest.mark.parametrize(("state", "event"), list(product(_S, _E)))
def test_a_server_knows_what_may_come(state: ServerState, event: ServerEvent) -> None:
    if (state, event) in FORBIDDEN_TO_SERVERS:
        with pytest.raises(SequenceError, match="must not come now"):
            next_server_state(state, event)
    else:
        assert next_server_state(state, event) is SERVER_TRANSITIONS[state, event]


@pytest.mark.parametrize(("state", "event"), list(product(_C, _F)))
def test_a_client_knows_what_may_come(state: ClientState, event: ClientEvent) -> None:
    if (state, event) in FORBIDDEN_TO_CLIENTS:
        with pytest.raises(SequenceError, match="must not come now"):
            next_client_state(state, event)
    else:
        assert next_client_state(state, event) is CLIENT_TRANSITIONS[state, event]


def test_from_every_state_there_is_a_way_out() -> None:
    assert all(next_server_state(state, _E.END) is _S.OVER for state in _S)
    assert all(next_client_state(state, _F.END) is _C.OVER for state in _C)


@pytest.mark.parametrize(
    ("command", "event"),
    [("CONNECT", _E.CONNECT), ("STOMP", _E.CONNECT), ("SEND", _E.REQUEST), ("CREDIT", _E.REQUEST), ("NACK", _E.REQUEST),
     ("DISCONNECT", _E.DISCONNECT)],
)  # fmt: skip
def test_commands_of_clients(command: str, event: ServerEvent) -> None:
    assert server_event(command) is event


@pytest.mark.parametrize("command", ["MESSAGE", "GET", "send"])
def test_other_commands_are_refused_by_the_server(command: str) -> None:
    with pytest.raises(SequenceError, match=f"{command} is no command that a client sends"):
        server_event(command)


def test_commands_of_servers() -> None:
    assert client_event("CONNECTED") is _F.CONNECTED
    assert client_event("MESSAGE") is client_event("RECEIPT") is client_event("ERROR", ends=False) is _F.ANSWER
    assert client_event("ERROR") is _F.REFUSED
    with pytest.raises(SequenceError, match="SEND is no command that a server sends"):
        client_event("SEND")
