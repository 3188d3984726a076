"""What the broker answers reads as it was written."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind, MessageId
from pyjms.spi.xid import Xid
from pyjms_provider.protocols.profile.answers import Created, Drained, Greeting, Prepared, Recovered, Sent
from pyjms_provider.protocols.profile.errors import CommandError
from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode
from pyjms_provider.protocols.stomp.command_frames import receipt_frame
from pyjms_provider.protocols.stomp.frames import Frame, Version


def over_the_wire(frame: Frame) -> Frame:
    (arrived,) = FrameDecoder(version=Version.V1_2).feed(encode(frame, Version.V1_2))
    assert isinstance(arrived, Frame)
    return arrived


@pytest.mark.parametrize(
    "answer",
    [
        Sent(MessageId("ID:a:b\\c\n")),
        Sent(None),
        Drained(0),
        Drained(7),
        Created(Address(AddressKind.TOPIC, "x:1", temporary=True)),
        Prepared(needs_commit=True),
        Prepared(needs_commit=False),
        Recovered(()),
        Recovered((Xid(-1, b"", b"\xff"), Xid(7, b"g", b"b"))),
    ],
    ids=repr,
)
def test_an_answer_equals_itself_after_the_wire(answer: Any) -> None:
    frame = over_the_wire(receipt_frame("r", answer.headers()))
    assert frame.headers["receipt-id"] == "r"
    assert type(answer).read(frame.headers) == answer


def test_a_greeting_equals_itself_after_the_wire() -> None:
    greeting = Greeting(
        capabilities=Capability.TOPICS | Capability.SELECTORS,
        resource_manager="shop:1",
        transaction_timeout_s=60,
        jmsx_property_names=("JMSXGroupID",),
        advice={Capability.XA: "give the broker a store"},
        body_max=1 << 20,
    )
    frame = over_the_wire(Frame("CONNECTED", greeting.headers()))
    assert Greeting.read(frame.headers) == greeting


def test_capabilities_of_a_later_broker_are_left_out() -> None:
    headers = {"capabilities": "TOPICS,TELEPATHY", "transaction-timeout": "0", "advice-TELEPATHY": "think"}
    assert Greeting.read(headers).capabilities is Capability.TOPICS


@pytest.mark.parametrize(
    ("kind", "headers"),
    [
        (Drained, {}),
        (Drained, {"left": "-1"}),
        (Created, {}),
        (Created, {"destination": "x"}),
        (Prepared, {}),
        (Recovered, {"xids": "1:x:y"}),
        (Greeting, {}),
        (Greeting, {"transaction-timeout": "0", "body-max": "much"}),
    ],
)
def test_an_answer_that_lacks_something_is_refused(kind: Any, headers: dict[str, str]) -> None:
    with pytest.raises(CommandError):
        kind.read(headers)
