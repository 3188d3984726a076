"""Each command of the profile equals itself after a frame, and stands for a call of the SPI."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.spi import provider as spi
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.replay import ReaderGroups, StageName, Stages
from pyjms.spi.xid import Xid
from pyjms_provider.protocols.profile.commands import (
    COMMANDS,
    RANGES_MAX,
    Acknowledge,
    BeginMode,
    Browse,
    Command,
    CommitBranch,
    Credit,
    DeleteSubscription,
    DeliveryIds,
    EndMode,
    Subscribe,
    Unsubscribe,
    delivery_ids,
    named,
    read_delivery_ids,
    write_delivery_ids,
)
from pyjms_provider.protocols.profile.errors import CommandError
from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode
from pyjms_provider.protocols.stomp.command_frames import command_frame, read_command
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.frames import Frame, Version

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
IDS = st.lists(st.integers(1, 10**6), min_size=1, unique=True).map(delivery_ids)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXT,
    "str | None": st.none() | TEXT,
    "bool": st.booleans(),
    "int": st.integers(0, 10**9),
    "int | None": st.none() | st.integers(0, 10**18),
    "Sequence[str]": st.lists(TEXT, max_size=3).map(tuple),
    "Sequence[StageName]": st.lists(
        st.builds(StageName, TEXT, st.integers(0, 2**63 - 1), st.integers(-5, 10**9), TEXT), max_size=3
    ).map(tuple),
    "Address": st.builds(Address, st.sampled_from(AddressKind), TEXT, st.booleans()),
    "AddressKind": st.sampled_from(AddressKind),
    "Xid": st.builds(Xid, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=64), st.binary(max_size=64)),
    "DeliveryIds": IDS,
    "BeginMode": st.sampled_from(BeginMode),
    "EndMode": st.sampled_from(EndMode),
}


def over_the_wire(frame: Frame) -> Frame:
    (arrived,) = FrameDecoder(version=Version.V1_2).feed(encode(frame, Version.V1_2))
    assert isinstance(arrived, Frame)
    return arrived


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(st.data())
def test_a_command_equals_itself_after_the_wire(kind: type[Command], data: st.DataObject) -> None:
    values = {each.name: data.draw(BY_TYPE[str(each.type)]) for each in fields(kind)}
    command = kind(**values)
    receipt = data.draw(st.none() | TEXT)
    frame = over_the_wire(command_frame(command, receipt))
    assert frame.headers.get("receipt") == receipt
    assert read_command(frame) == command


@pytest.mark.parametrize(
    "kind", [spi.ProviderConnection, spi.ProviderSession, spi.ProviderConsumer, ReaderGroups, Stages]
)
def test_every_call_of_the_spi_has_a_command(kind: type) -> None:
    not_on_the_wire = {
        "ProviderConnection.close": "DISCONNECT",
        "ProviderConnection.advice": "CONNECTED",
        "ProviderConnection.abort": "the client closes its socket",
        "ProviderSession.send": "SEND",
        "ProviderSession.send_async": "SEND, whose answer comes later",
        "ProviderSession.commit_with": "Capability.SHARED_TRANSACTIONS is for brokers in the application's own process",
        "ProviderSession.retry_all": "Retry, which names one or many",
        "ProviderSession.may_wait": "each side knows that of its own calls",
        "ProviderSession.xa_set_timeout": "BEGIN says it",
        "ProviderSession.xa_get_timeout": "CONNECTED says it",
        "ProviderSession.waiter": "how the client itself waits",
        "ProviderConsumer.poll_or_wait": "poll",
        "ProviderConsumer.poll_at_once": "poll",
        "ProviderConsumer.take_unreturned": "what the client itself keeps",
    }
    docstrings = " ".join(command.__doc__ or "" for command in COMMANDS).replace(
        "and `set_interested`", "`ProviderConsumer.set_interested`"
    )
    calls = [f"{kind.__name__}.{name}" for name, _ in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"]
    assert len(calls) > 3
    missing = [call for call in calls if f"`{call}`" not in docstrings and call not in not_on_the_wire]
    assert not missing


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (Frame("SUBSCRIBE", {"session": "s", "id": "1", "destination": "/queue/q"}), Subscribe),
        (Frame("SUBSCRIBE", {"session": "s", "id": "1", "destination": "/queue/q", "browser": "true"}), Browse),
        (Frame("SUBSCRIBE", {"session": "s", "id": "1", "destination": "/queue/q", "browser": "false"}), Subscribe),
        (Frame("UNSUBSCRIBE", {"id": "1"}), Unsubscribe),
        (Frame("UNSUBSCRIBE", {"id": "1", "durable-subscription-name": "n"}), Unsubscribe),
        (Frame("UNSUBSCRIBE", {"session": "s", "durable-subscription-name": "n"}), DeleteSubscription),
        (Frame("COMMIT", {"session": "s", "xid": "1:ab:cd", "one-phase": "true"}), CommitBranch),
    ],
)
def test_commands_of_one_command_are_told_apart(frame: Frame, kind: type[Command]) -> None:
    assert type(read_command(frame)) is kind


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (Frame("NONSENSE", {}), "NONSENSE is no command"),
        (Frame("ACK", {"session": "s", "receipt": "7"}), "ACK needs the header ids"),
        (Frame("ACK", {"session": "s", "ids": "5-1", "receipt": "7"}), "ids of ACK must be delivery ids"),
        (Frame("CREDIT", {"subscription": "1", "credit": "-1"}), "must be a number from 0"),
        (Frame("CREDIT", {"subscription": "1", "credit": "1" * 20}), "must be a number from 0"),
        (Frame("SESSION", {"session": "s", "transacted": "yes"}), "must be true or false"),
        (Frame("SESSION", {"session": ""}), "must be a text"),
        (Frame("CREATE", {"kind": "pipe"}), "must be queue or topic"),
        (Frame("DELETE", {"destination": "orders"}), "must be a destination"),
        (Frame("BEGIN", {"session": "s", "xid": "1:x:y"}), "must be a branch"),
        (Frame("DISCARD", {"units": "[" * 100_000}), "must be units as JSON"),
        (Frame("DISCARD", {"units": '[["sink",1,true,"a"]]'}), "must be units as JSON"),
        (Frame("BEGIN", {"session": "s", "xid": "1:ab:", "mode": "old"}), "must be one of new, join, resume"),
        (
            Frame("SUBSCRIBE", {"session": "s", "id": "1", "destination": "/queue/q", "consumer-priority": "x"}),
            "a number",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_name(frame: Frame, text: str) -> None:
    with pytest.raises(ProfileError, match=text) as caught:
        read_command(frame)
    assert caught.value.receipt == frame.headers.get("receipt") or frame.command == "NONSENSE"


def test_defaults_are_not_written() -> None:
    assert command_frame(Credit(subscription="1", credit=5)).headers == {"subscription": "1", "credit": "5"}
    assert command_frame(Acknowledge(session="s", ids=delivery_ids([1, 2, 3, 7])), "r").headers == {
        "session": "s",
        "ids": "1-3,7",
        "receipt": "r",
    }


@given(st.lists(st.integers(1, 60), max_size=40))
def test_delivery_ids_keep_their_order(numbers: list[int]) -> None:
    ids = delivery_ids(numbers)
    assert [number for each in ids for number in each] == numbers
    if numbers:
        assert read_delivery_ids(write_delivery_ids(ids)) == ids


def test_a_short_header_may_name_many() -> None:
    assert read_delivery_ids("1-9223372036854775807") == (range(1, 2**63),)


@pytest.mark.parametrize(
    "frame",
    [
        Frame("BEGIN", {"session": "a", "xid": f"{2**63}:aa:bb"}),
        Frame("STAGE", {"session": "a", "sink": "s", "epoch": "1", "partition": "1", "attempt": "a", "keep": "9" * 19}),
        Frame("STAGE", {"session": "a", "sink": "s", "epoch": "9" * 19, "partition": "1", "attempt": "a", "keep": "9"}),
    ],
    ids=["xid", "keep", "epoch"],
)
def test_a_number_that_no_store_can_hold_is_refused_where_it_comes_in(frame: Frame) -> None:
    with pytest.raises(ProfileError):
        read_command(frame)


RANGES = st.tuples(st.integers(1, 30), st.integers(1, 10)).map(lambda drawn: range(drawn[0], drawn[0] + drawn[1]))


@given(st.lists(RANGES, max_size=12).map(tuple), st.sets(st.integers(1, 30)))
def test_what_is_open_is_found_once_where_it_is_named_first(ids: DeliveryIds, numbers: set[int]) -> None:
    wanted = dict.fromkeys(number for each in ids for number in each if number in numbers)
    assert named(ids, numbers) == list(wanted)


def test_to_look_up_many_ranges_takes_about_as_long_as_to_read_them() -> None:
    ids, numbers = (range(1, 2**63),) * RANGES_MAX, range(2, 2 * RANGES_MAX, 2)
    assert named(ids, numbers) == list(numbers)  # one look for each range and number takes minutes


def test_a_header_of_more_ranges_than_anybody_needs_is_refused() -> None:
    most = ",".join(["7"] * RANGES_MAX)
    assert len(read_delivery_ids(most)) == RANGES_MAX
    with pytest.raises(CommandError, match="settle fewer at once"):
        read_delivery_ids(most + ",7")


@pytest.mark.parametrize("text", ["", "0", "-1", "1-", "2-1", "1,,2", "a", "1 2", "9223372036854775808", "\u0661"])
def test_what_are_no_delivery_ids_is_refused(text: str) -> None:
    with pytest.raises(CommandError):
        read_delivery_ids(text)


HEADERS = sorted({place.metadata["header"] for kind in COMMANDS for place in fields(kind)} | {"browser", "receipt"})
NEARLY = st.sampled_from(
    ["true", "1", "-1", "1-5", "1:ab:cd", "1::", "/queue/q", "/queue/", "queue", "new", "suspend", "\u0664", ""]
)


@given(
    st.sampled_from([kind.COMMAND for kind in COMMANDS]),
    st.dictionaries(st.sampled_from(HEADERS), NEARLY | st.text(max_size=9), max_size=9),
)
def test_any_headers_make_a_command_or_a_named_error(name: str, headers: dict[str, str]) -> None:
    try:
        command = read_command(Frame(name, headers))
    except ProfileError as error:
        assert name in error.reason  # noqa: PT017 - a command may come, or the error
        assert error.receipt == headers.get("receipt")  # noqa: PT017 - as above
    else:
        assert name == command.COMMAND
