"""Which provider serves a URL, and what the error says when none does."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import pytest

from pyjms.spi import registry
from pyjms.spi.errors import CapabilityError, MissingProviderError
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, Provider, ProviderConnection
from pyjms.spi.registry import ENTRY_POINT_GROUP, find_provider, known_schemes, register_provider
from pyjms.spi.url import ProviderUrl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Silent(Provider):
    """A provider that nobody connects to."""

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        raise NotImplementedError


class Demanding(Silent):
    """A provider class that cannot be made without an argument."""

    def __init__(self, home: str) -> None:
        self.home = home


def broken() -> None:
    raise RuntimeError("the licence file is missing")


installed: dict[str, str] = {}
"""Scheme → object, as the entry points of installed distributions would have it."""


@pytest.fixture(autouse=True)
def schemes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        points = [EntryPoint(scheme, value, ENTRY_POINT_GROUP) for scheme, value in installed.items()]
        assert group == ENTRY_POINT_GROUP
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    monkeypatch.setattr(registry, "_registered", {})
    installed.clear()
    yield
    installed.clear()


def test_a_registered_provider_is_found_until_it_is_taken_away() -> None:
    provider = Silent()
    register_provider("silent", provider)
    assert find_provider("silent") is provider
    assert known_schemes() == ("silent",)
    register_provider("silent", None)
    register_provider("silent", None)
    with pytest.raises(MissingProviderError):
        find_provider("silent")


def test_an_entry_point_is_loaded_when_its_scheme_is_used_and_once() -> None:
    installed["quiet"] = f"{__name__}:Silent"
    first = find_provider("quiet")
    assert isinstance(first, Silent)
    assert find_provider("quiet") is first


def test_what_is_registered_comes_before_entry_points() -> None:
    installed["quiet"] = "no.such.module:Provider"
    provider = Silent()
    register_provider("quiet", provider)
    assert find_provider("quiet") is provider


def test_an_unknown_scheme_is_answered_with_those_that_are_known() -> None:
    installed["quiet"] = f"{__name__}:Silent"
    register_provider("silent", Silent())
    with pytest.raises(MissingProviderError, match=r"no provider .* for loud://.*quiet://, silent://.*install"):
        find_provider("loud")
    register_provider("silent", None)
    installed.clear()
    with pytest.raises(MissingProviderError, match="installed: none"):
        find_provider("loud")


def test_a_missing_extra_is_answered_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    installed["wire"] = "no_such_client_library.provider:WireProvider"
    with pytest.raises(MissingProviderError, match=r"wire://.*no_such_client_library.*pip install") as caught:
        find_provider("wire")
    assert isinstance(caught.value.__cause__, ImportError)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (f"{__name__}:NoSuchClass", "NoSuchClass"),
        (f"{__name__}:installed", "not callable"),
        (f"{__name__}:Demanding", "home"),
        (f"{__name__}:broken", "the licence file is missing"),
        (f"{__name__}:Provider", "abstract"),
    ],
)
def test_a_broken_entry_point_is_named_with_its_cause(value: str, reason: str) -> None:
    installed["odd"] = value
    with pytest.raises(MissingProviderError, match=f"odd.*{reason}") as caught:
        find_provider("odd")
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("made", [dict, object, str])
def test_an_entry_point_that_is_no_provider_is_named(made: Callable[[], Any]) -> None:
    installed["odd"] = f"builtins:{made.__name__}"
    with pytest.raises(MissingProviderError, match=rf"odd = builtins:{made.__name__} is no .*Provider"):
        find_provider("odd")


def test_a_provider_that_failed_is_tried_anew() -> None:
    installed["odd"] = f"{__name__}:broken"
    with pytest.raises(MissingProviderError):
        find_provider("odd")
    installed["odd"] = f"{__name__}:Silent"
    assert isinstance(find_provider("odd"), Silent)


def test_a_provider_stops_no_broker_unless_it_says_so() -> None:
    with pytest.raises(CapabilityError, match="far://"):
        Silent().stop_broker(ProviderUrl.parse("far://away"))


def test_the_bundled_provider_is_found_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert "vm" in known_schemes()
    assert type(find_provider("vm")).__module__.startswith("pyjms_provider.")
