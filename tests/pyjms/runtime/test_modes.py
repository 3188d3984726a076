"""A wrong acknowledge mode is refused in the words of who writes Java."""

from __future__ import annotations

import pytest

from pyjms import JMSException, Session
from pyjms.runtime.connection import JmsConnection


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            (False, Session.SESSION_TRANSACTED),
            (
                "SESSION_TRANSACTED is the mode of a transacted session, create_session(True, Session.SESSION_TRANSACTED); "
                "without transactions, use Session.AUTO_ACKNOWLEDGE, CLIENT_ACKNOWLEDGE or DUPS_OK_ACKNOWLEDGE"
            ),
        ),
        (
            (False, 4),
            "4 is no acknowledge mode: use Session.AUTO_ACKNOWLEDGE, CLIENT_ACKNOWLEDGE or DUPS_OK_ACKNOWLEDGE",
        ),
        (
            (Session.CLIENT_ACKNOWLEDGE,),
            "whether a session is transacted comes first, then its mode: create_session(False, Session.CLIENT_ACKNOWLEDGE)",
        ),
        (
            (Session.SESSION_TRANSACTED,),
            "whether a session is transacted comes first: create_session(True, Session.SESSION_TRANSACTED)",
        ),
    ],
)
def test_a_wrong_mode_is_told_with_what_to_write(
    connection: JmsConnection, arguments: tuple[int, ...], said: str
) -> None:
    """A mode alone, as JMS 2.0 has it, made a transacted session, which nobody committed."""
    with pytest.raises(JMSException) as told:
        connection.create_session(*arguments)  # type: ignore[arg-type]  # that is what is wrong
    assert str(told.value) == said
    with pytest.raises(JMSException):
        connection.createSession(*arguments)  # type: ignore[arg-type]  # as above
