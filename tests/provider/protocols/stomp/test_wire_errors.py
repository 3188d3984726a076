"""The error that a pyjms client raises is the one that the broker raised."""

from __future__ import annotations

import pytest

from pyjms.spi import errors as spi_errors
from pyjms.spi.errors import BranchError, InvalidSelectorError, ProviderError, ResourceError, RolledBackError
from pyjms.spi.xid import BranchFailure
from pyjms_provider.protocols.profile.errors import CommandError
from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode
from pyjms_provider.protocols.stomp.command_frames import PROTOCOL_CODE, error_frame, error_of, is_closing
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.frames import Frame, Version

PLAIN = [
    kind
    for name in spi_errors.__all__
    if (kind := getattr(spi_errors, name)) not in (InvalidSelectorError, BranchError)
]


def after_the_wire(error: ProviderError, version: Version = Version.V1_2) -> ProviderError:
    (frame,) = FrameDecoder(version=version).feed(encode(error_frame(error, "7"), version))
    assert isinstance(frame, Frame)
    assert frame.headers["receipt-id"] == "7"
    return error_of(frame)


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_each_error_comes_back_as_itself(kind: type[ProviderError]) -> None:
    error = after_the_wire(kind("do this:\nthen that"))
    assert type(error) is kind
    assert error.reason == "do this:\nthen that"


class FullError(ResourceError):
    """As a broker has them."""

    code = "PYJMS-TEST-FULL"


def test_an_error_of_the_brokers_own_comes_as_the_kind_that_it_is_with_its_code() -> None:
    error = after_the_wire(FullError("no room"))
    assert (type(error), error.code, error.reason) == (ResourceError, "PYJMS-TEST-FULL", "no room")
    assert ResourceError.code == "PYJMS-RESOURCE"


@pytest.mark.parametrize("cause", [FullError("no room"), ResourceError("no room")], ids=["own", "known"])
def test_a_transaction_that_was_rolled_back_says_because_of_what_kind(cause: ProviderError) -> None:
    sent = RolledBackError("it was rolled back: no room")
    sent.__cause__ = cause
    error = after_the_wire(sent)
    assert type(error) is RolledBackError
    assert type(error.__cause__) is ResourceError
    assert error.reason == "it was rolled back: no room"
    assert after_the_wire(RolledBackError("so")).__cause__ is None


def test_codes_are_told_apart() -> None:
    assert len({kind.code for kind in PLAIN}) == len(PLAIN)


@pytest.mark.parametrize("failure", BranchFailure)
def test_a_branch_error_keeps_its_failure(failure: BranchFailure) -> None:
    error = after_the_wire(BranchError("no", failure))
    assert isinstance(error, BranchError)
    assert error.failure is failure


def test_a_selector_error_keeps_its_position() -> None:
    sent = InvalidSelectorError("a value is missing", "a = AND\tb = 2", 4)
    error = after_the_wire(sent)
    assert isinstance(error, InvalidSelectorError)
    assert (error.reason, error.selector, error.position) == (sent.reason, sent.selector, 4)


def test_a_selector_may_hold_what_no_header_can() -> None:
    error = after_the_wire(InvalidSelectorError("bad", "a = '\0\ud800'", 5))
    assert isinstance(error, InvalidSelectorError)
    assert error.position == 5


@pytest.mark.parametrize(
    ("frame", "kind", "text"),
    [
        (Frame("ERROR", {"code": "PYJMS-NEW"}, b"of a later version"), ProviderError, "of a later version"),
        (Frame("ERROR", {"message": "nothing else"}), ProviderError, "nothing else"),
        (Frame("ERROR", {}), ProviderError, "without saying why"),
        (Frame("ERROR", {"code": "PYJMS-XA", "failure": "?"}, b"x"), BranchError, "x"),
        (Frame("ERROR", {"code": "PYJMS-SELECTOR", "position": "\u00b2"}, b"x"), InvalidSelectorError, "x"),
        (
            Frame("ERROR", {"code": "PYJMS-SELECTOR", "position": "99", "selector": "a"}, b"x"),
            InvalidSelectorError,
            "x",
        ),
    ],
)
def test_any_error_frame_is_an_error(frame: Frame, kind: type[ProviderError], text: str) -> None:
    error = error_of(frame)
    assert type(error) is kind
    assert text in error.reason


def test_a_fault_of_the_frames_has_a_code_of_its_own_and_knows_its_receipt() -> None:
    frame = error_frame(ProfileError("say it so", receipt="9"), None, closing=True)
    assert (frame.headers["code"], frame.headers["receipt-id"], is_closing(frame)) == (PROTOCOL_CODE, "9", True)


def test_a_fault_of_a_command_is_one_of_its_frame() -> None:
    frame = error_frame(CommandError("delivery ids are numbers"), "9")
    assert (frame.headers["code"], bytes(frame.body)) == (PROTOCOL_CODE, b"delivery ids are numbers")


@pytest.mark.parametrize("version", Version)
def test_any_version_can_write_any_reason(version: Version) -> None:
    error = after_the_wire(ResourceError(" \r\nfull\0\ud800:\\"), version)
    assert isinstance(error, ResourceError)


def test_an_error_closes_nothing_unless_it_says_so() -> None:
    assert not is_closing(error_frame(ResourceError("full"), "7"))
