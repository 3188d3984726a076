"""A destination equals itself after headers, and what would mean another one is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError
from pyjms_provider.protocols.profile.paths import EXACT_PATHS, DestinationNaming, Paths
from pyjms_provider.protocols.stomp.dialects import (
    BARE_NAMES,
    ENCODED_PATHS,
    PATHS,
)

QUEUE, TOPIC = AddressKind.QUEUE, AddressKind.TOPIC
WAYS = {"exact": EXACT_PATHS, "classic": PATHS, "encoded": ENCODED_PATHS}
NAMES = st.text(st.characters(exclude_characters="\0,?", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize("way", WAYS)
@given(st.builds(Address, st.sampled_from(AddressKind), NAMES, st.booleans()))
def test_a_path_names_its_destination(way: str, address: Address) -> None:
    naming = WAYS[way]
    assert naming.read(naming.headers_for(address)) == address
    assert naming.read_reply_to(naming.write_reply_to(address)) == address


@given(st.sampled_from(AddressKind), NAMES)
def test_a_bare_name_comes_with_its_kind(kind: AddressKind, name: str) -> None:
    address = Address(kind, name)
    assert BARE_NAMES.read(BARE_NAMES.headers_for(address)) == address
    assert BARE_NAMES.read(BARE_NAMES.headers_for(address, subscribing=True)) == address
    assert BARE_NAMES.read({"destination": name}, assumed=address) == address


def test_what_each_way_writes() -> None:
    address = Address(QUEUE, "a/b ü")
    assert EXACT_PATHS.headers_for(address) == PATHS.headers_for(address) == {"destination": "/queue/a/b ü"}
    assert ENCODED_PATHS.headers_for(address) == {"destination": "/queue/a%2Fb%20%C3%BC"}
    assert BARE_NAMES.headers_for(address) == {"destination": "a/b ü", "destination-type": "ANYCAST"}
    assert BARE_NAMES.headers_for(Address(TOPIC, "t"), subscribing=True) == {
        "destination": "t",
        "subscription-type": "MULTICAST",
    }


def test_rabbitmq_keeps_what_separates_and_matches_in_topics() -> None:
    assert ENCODED_PATHS.headers_for(Address(TOPIC, "a.*.#")) == {"destination": "/topic/a.*.#"}


@pytest.mark.parametrize("name", ["a,b", "a?consumer.prefetchSize=1"])
def test_classic_would_read_more_than_a_name(name: str) -> None:
    with pytest.raises(DestinationError, match="choose another name"):
        PATHS.headers_for(Address(QUEUE, name))
    assert EXACT_PATHS.read(EXACT_PATHS.headers_for(Address(QUEUE, name))) == Address(QUEUE, name)


@pytest.mark.parametrize("naming", [EXACT_PATHS, PATHS, ENCODED_PATHS, BARE_NAMES])
@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_what_no_header_carries_is_refused(naming: DestinationNaming, name: str) -> None:
    with pytest.raises(DestinationError, match="name of a destination"):
        naming.headers_for(Address(QUEUE, name))


@pytest.mark.parametrize("text", ["", "orders", "/queue/", "/queue", "/Queue/a", "queue/a", "/remote-temp-queue"])
def test_what_is_no_path_is_no_destination(text: str) -> None:
    with pytest.raises(DestinationError, match="is no destination: write /queue/NAME"):
        EXACT_PATHS.read({"destination": text})
    assert EXACT_PATHS.read_reply_to(text) is None


@pytest.mark.parametrize("naming", [EXACT_PATHS, BARE_NAMES])
def test_a_frame_without_a_destination_is_refused(naming: DestinationNaming) -> None:
    with pytest.raises(DestinationError, match="has no destination"):
        naming.read({})


def test_another_connections_temporary_destination_keeps_classics_name_for_it() -> None:
    address = PATHS.read_reply_to("/remote-temp-topic/ID:host-1:x")
    assert address == Address(TOPIC, "/remote-temp-topic/ID:host-1:x", temporary=True)
    assert PATHS.write_reply_to(address) == "/remote-temp-topic/ID:host-1:x"


def test_a_bare_name_of_another_destination_has_the_kind_of_the_subscription() -> None:
    assert BARE_NAMES.read({"destination": "b"}, assumed=Address(TOPIC, "a.*")) == Address(TOPIC, "b")
    assert BARE_NAMES.read({"destination": "b"}) == Address(QUEUE, "b")
    assert BARE_NAMES.read_reply_to("") is None


def test_what_is_remembered_is_bounded() -> None:
    naming = Paths({})
    first = Address(QUEUE, "first")
    written = naming.headers_for(first)
    found = naming.read(written)
    assert naming.headers_for(first)["destination"] is written["destination"]
    assert naming.read(written) is found
    for number in range(4096):
        address = Address(QUEUE, str(number))
        assert naming.read(naming.headers_for(address)) == address
    # Made anew, as it was forgotten.
    assert naming.headers_for(first)["destination"] is not written["destination"]
    assert naming.read(written) is not found
    assert naming.read(written) == found
