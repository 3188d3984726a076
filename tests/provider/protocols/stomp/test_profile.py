"""Any legal message equals itself after frames of any version, whatever its types and values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.profile import from_frame, to_frame
from tests.provider.envelopes import envelopes, shape
from tests.provider.protocols.stomp.strategies import VERSIONS

LINE = st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs", "Zs", "Cc"]), min_size=1)
ADDRESSES = st.builds(Address, st.sampled_from(AddressKind), LINE, st.booleans())


def over_the_wire(frame: Frame, version: Version, *, lazy: bool) -> Frame:
    (arrived,) = FrameDecoder(version=version, lazy=lazy).feed(encode(frame, version))
    assert isinstance(arrived, Frame)
    return arrived


def named(envelope: Envelope) -> dict[str, object]:
    fields = {name: shape(getattr(envelope, name)) for name in Envelope.__dataclass_fields__}
    fields["properties"] = {name: shape(value) for name, value in envelope.properties.items()}
    return fields


@pytest.mark.parametrize("lazy", [False, True])
@given(envelopes(ADDRESSES), VERSIONS)
def test_a_message_equals_itself_after_the_wire(lazy: bool, envelope: Envelope, version: Version) -> None:
    frame = to_frame(envelope, PYJMS, version=version)
    received = from_frame(over_the_wire(frame, version, lazy=lazy), PYJMS)
    assert named(received) == named(envelope)


@given(envelopes(ADDRESSES))
def test_a_message_that_is_passed_on_is_not_taken_apart(envelope: Envelope) -> None:
    arrived = over_the_wire(to_frame(envelope, PYJMS), Version.V1_2, lazy=True)
    passed_on = to_frame(from_frame(arrived, PYJMS), PYJMS, command="MESSAGE")
    assert passed_on.tail == arrived.tail
    assert named(from_frame(over_the_wire(passed_on, Version.V1_2, lazy=True), PYJMS)) == named(envelope)
