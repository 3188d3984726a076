"""Contract tests: connecting, client identifiers, capabilities, and a provider's own description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.errors import CapabilityError, DuplicateClientIdError, UrlError
from pyjms.spi.registry import known_schemes
from pyjms_tck.spi.declarations import misdeclared
from pyjms_tck.spi.environment import Environment


@pytest.fixture
def provider_credentials() -> tuple[str | None, str | None]:
    """User name and password; a provider's own tests may replace the fixture."""
    return None, None


@pytest.fixture
def environment(provider_url: str, provider_credentials: tuple[str | None, str | None]) -> Iterator[Environment]:
    """The message system behind the fixture `provider_url`, which the provider's own tests define."""
    with Environment(provider_url, credentials=provider_credentials) as environment:
        yield environment


def test_the_scheme_is_known(environment: Environment) -> None:
    assert environment.url.scheme in known_schemes()


def test_each_connection_has_a_name_of_its_own(environment: Environment) -> None:
    names = [environment.connect().connection_id for _ in range(3)]
    assert len(set(names)) == 3
    assert all(names)


def test_a_provider_names_itself_and_its_version(environment: Environment) -> None:
    info = environment.connect().info
    assert info.name
    assert info.version[0].isdigit()
    assert all(name.startswith("JMSX") for name in info.jmsx_property_names)
    # JMS 1.1 §3.5.9: these two are not optional
    assert {"JMSXGroupID", "JMSXGroupSeq"} <= set(info.jmsx_property_names)


def test_capabilities_are_those_that_work(environment: Environment) -> None:
    assert misdeclared(environment) == {}


def test_an_unknown_option_is_refused(environment: Environment) -> None:
    url = replace(environment.url, options=MappingProxyType({"no_such_option": "1"}))
    # A misspelt option that is ignored would remain unnoticed.
    with pytest.raises(UrlError):
        environment.provider.connect(environment.request(url=url), environment)


def test_a_client_id_is_taken_once(environment: Environment) -> None:
    clerk = environment.name("clerk")
    first = environment.connect(client_id=clerk)
    with pytest.raises(DuplicateClientIdError):
        environment.connect(client_id=clerk)
    second = environment.connect(started=False)
    with pytest.raises(DuplicateClientIdError):
        second.set_client_id(clerk)
    # The identifier is free again once its connection is closed (§4.3.2).
    first.close()
    second.set_client_id(clerk)


def test_a_broker_elsewhere_cannot_be_stopped_from_here(environment: Environment) -> None:
    if Capability.EMBEDDED_BROKER not in environment.connect().capabilities:
        with pytest.raises(CapabilityError):
            environment.provider.stop_broker(environment.url)
