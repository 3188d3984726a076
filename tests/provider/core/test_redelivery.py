"""What a rejected message looks like in the queue of dead letters."""

from __future__ import annotations

from pyjms_provider.core.redelivery import DEAD_LETTERS, dead_letter
from tests.provider.helpers import NEWS, make_envelope


def test_a_dead_letter_keeps_the_message_and_says_why() -> None:
    envelope = make_envelope("a", destination=NEWS, properties={"n": 1}, expiration_ms=5)
    letter = dead_letter(envelope, "no such customer", 3)
    assert (letter.message_id, letter.body, letter.destination) == (envelope.message_id, "a", DEAD_LETTERS)
    assert letter.expiration_ms == 0
    assert letter.properties == {
        "n": 1,
        "JMS_pyjms_deadReason": "no such customer",
        "JMS_pyjms_deadDestination": "topic://news",
        "JMS_pyjms_deadCount": 3,
    }
    assert envelope.properties == {"n": 1}, "the envelope that others share is as it was"


def test_a_letter_that_is_rejected_again_remembers_where_it_was_first_sent_to() -> None:
    again = dead_letter(dead_letter(make_envelope(), "first", 1), "second", 2)
    assert again.properties["JMS_pyjms_deadDestination"] == "queue://orders"
    assert again.properties["JMS_pyjms_deadReason"] == "second"
