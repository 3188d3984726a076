"""Modes of sessions: the forms of `create_session`, and the errors of wrong ones."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import AcknowledgeMode, JMSException, Session
from pyjms.runtime.connection import JmsConnection


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            (False, Session.SESSION_TRANSACTED),
            (
                "SESSION_TRANSACTED is the mode of a transacted session, create_session(Session.SESSION_TRANSACTED); "
                "without transactions, use Session.AUTO_ACKNOWLEDGE, CLIENT_ACKNOWLEDGE or DUPS_OK_ACKNOWLEDGE"
            ),
        ),
        (
            (False, 4),
            "4 is no acknowledge mode: use Session.AUTO_ACKNOWLEDGE, CLIENT_ACKNOWLEDGE or DUPS_OK_ACKNOWLEDGE",
        ),
        (
            (Session.CLIENT_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE),
            "with two arguments, whether a session is transacted comes first: create_session(False, Session.CLIENT_ACKNOWLEDGE)",
        ),
        (
            (Session.SESSION_TRANSACTED, Session.AUTO_ACKNOWLEDGE),
            "with two arguments, whether a session is transacted comes first: create_session(True, Session.SESSION_TRANSACTED)",
        ),
        (
            (4,),
            "4 is no acknowledge mode: use Session.SESSION_TRANSACTED, AUTO_ACKNOWLEDGE, CLIENT_ACKNOWLEDGE or DUPS_OK_ACKNOWLEDGE",
        ),
    ],
)
def test_a_wrong_mode_is_told_with_what_to_write(
    connection: JmsConnection, arguments: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(JMSException) as told:
        connection.create_session(*arguments)
    assert str(told.value) == said
    with pytest.raises(JMSException):
        connection.createSession(*arguments)


@pytest.mark.parametrize(
    ("arguments", "named", "mode"),
    [
        ((), {}, Session.AUTO_ACKNOWLEDGE),
        ((Session.AUTO_ACKNOWLEDGE,), {}, Session.AUTO_ACKNOWLEDGE),
        ((Session.CLIENT_ACKNOWLEDGE,), {}, Session.CLIENT_ACKNOWLEDGE),
        ((int(Session.DUPS_OK_ACKNOWLEDGE),), {}, Session.DUPS_OK_ACKNOWLEDGE),
        ((Session.SESSION_TRANSACTED,), {}, Session.SESSION_TRANSACTED),
        ((0,), {}, Session.SESSION_TRANSACTED),
        ((), {"session_mode": Session.CLIENT_ACKNOWLEDGE}, Session.CLIENT_ACKNOWLEDGE),
        ((True,), {}, Session.SESSION_TRANSACTED),
        ((False,), {}, Session.AUTO_ACKNOWLEDGE),
        ((True, 99), {}, Session.SESSION_TRANSACTED),
        ((False, 2), {}, Session.CLIENT_ACKNOWLEDGE),
        ((False,), {"acknowledge_mode": 3}, Session.DUPS_OK_ACKNOWLEDGE),
        ((), {"transacted": True, "acknowledge_mode": 1}, Session.SESSION_TRANSACTED),
    ],
)
def test_a_session_is_made_by_a_mode_alone_or_by_whether_it_is_transacted(
    connection: JmsConnection, arguments: tuple[Any, ...], named: dict[str, Any], mode: AcknowledgeMode
) -> None:
    for session in (connection.create_session(*arguments, **named), connection.createSession(*arguments, **named)):
        assert session.acknowledge_mode is mode
        assert session.transacted is (mode is Session.SESSION_TRANSACTED)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((False, 1, 1), {}),
        ((1,), {"session_mode": 1}),
        ((True,), {"session_mode": 1}),
        ((True,), {"transacted": True}),
        ((), {"session_mode": 1, "acknowledge_mode": 1}),
        ((), {"mode": 1}),
    ],
)
def test_arguments_of_no_overload_are_refused(
    connection: JmsConnection, arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        connection.create_session(*arguments, **named)
