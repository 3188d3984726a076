"""Versions and heart-beats, as STOMP 1.2 says under "Connecting"."""

from __future__ import annotations

import pytest

from pyjms_provider.protocols.stomp.errors import FrameError, VersionError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.server.login import (
    HeartBeats,
    accepted_versions,
    agree_on_heart_beats,
    choose_version,
    read_heart_beat,
    refusal,
    version_of_connected,
)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, Version.V1_0),
        ("1.0", Version.V1_0),
        ("1.0,1.1,2.0", Version.V1_1),
        ("1.2,1.0", Version.V1_2),
        (" 1.1 , 1.2 ", Version.V1_2),
    ],
)
def test_the_highest_common_version_is_chosen(offered: str | None, chosen: Version) -> None:
    assert choose_version(offered) is chosen


@pytest.mark.parametrize("offered", ["", "2.0", "1.3,0.9", "1.2x"])
@pytest.mark.realises("BJ-PE-4")
def test_without_a_common_version_the_client_hears_which_there_are(offered: str) -> None:
    with pytest.raises(VersionError) as caught:
        choose_version(offered)
    frame = refusal(caught.value)
    assert (frame.command, frame.headers["version"]) == ("ERROR", "1.0,1.1,1.2")
    assert b"1.0,1.1,1.2" in bytes(frame.body)


def test_a_server_may_speak_less() -> None:
    assert choose_version("1.0,1.1,1.2", [Version.V1_1]) is Version.V1_1


@pytest.mark.parametrize(("header", "version"), [(None, Version.V1_0), ("1.1", Version.V1_1)])
def test_a_client_reads_what_was_chosen(header: str | None, version: Version) -> None:
    assert version_of_connected(Frame("CONNECTED", {} if header is None else {"version": header})) is version


def test_a_client_refuses_what_it_did_not_offer() -> None:
    with pytest.raises(VersionError, match="not offered"):
        version_of_connected(Frame("CONNECTED", {"version": "1.0"}), [Version.V1_2])


def test_the_header_lists_all_versions() -> None:
    assert accepted_versions(Version) == "1.0,1.1,1.2"


@pytest.mark.parametrize(
    ("own", "other", "send_ms", "expect_ms"),
    [
        ((0, 0), (5, 5), 0, 0),
        ((10, 20), (30, 40), 40, 30),
        ((50, 60), (30, 40), 50, 60),
        ((10, 20), (0, 40), 40, 0),
        ((10, 20), (30, 0), 0, 30),
    ],
)
def test_heart_beats_are_the_slower_of_what_one_can_and_the_other_wants(
    own: tuple[int, int], other: tuple[int, int], send_ms: int, expect_ms: int
) -> None:
    assert agree_on_heart_beats(own, other) == HeartBeats(send_ms=send_ms, expect_ms=expect_ms)
    assert agree_on_heart_beats(other, own) == HeartBeats(send_ms=expect_ms, expect_ms=send_ms)


@pytest.mark.parametrize(
    ("text", "pair"), [(None, (0, 0)), ("1,2", (1, 2)), (" 1 , 2 ", (1, 2)), ("9" * 15 + ",1", (86_400_000, 1))]
)
def test_the_header_is_read(text: str | None, pair: tuple[int, int]) -> None:
    assert read_heart_beat(text) == pair


@pytest.mark.parametrize("text", ["", "1", "1,", "a,b", "-1,5", "1,2,3", "1.5,2", "\u00b2,1", "9" * 16 + ",1"])
def test_what_is_no_pair_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(FrameError):
        read_heart_beat(text)
