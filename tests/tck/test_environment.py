from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms import ConnectionFactory, JMSException, QueueConnectionFactory
from pyjms.spi.capability import Capability
from pyjms.testing import Faults
from pyjms_tck.checks import CheckError
from pyjms_tck.environment import NOTHING_EMBEDDED_MS, NOTHING_MS, Environment, Facts, Waits
from pyjms_tck.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Iterator


class Guest(Profile):
    user_name = "guest"
    password = "secret"
    options = {"client_id": "clerk"}  # noqa: RUF012  as authors write it


@pytest.fixture
def environment(jms_broker_url: str) -> Environment:
    return Environment(jms_broker_url, Profile())


def test_factories_have_the_options_of_the_profile_and_of_the_test(jms_broker_url: str) -> None:
    environment = Environment(jms_broker_url, Guest())
    with environment.factory(ConnectionFactory).create_connection() as connection:
        assert connection.client_id == "clerk"
    factory = environment.factory(QueueConnectionFactory, client_id="another")
    assert type(factory) is QueueConnectionFactory
    with factory.create_connection() as queue_connection:
        assert queue_connection.client_id == "another"


class OurFactory(ConnectionFactory):
    pass


class OtherApi(Profile):
    factories = {ConnectionFactory: OurFactory}  # noqa: RUF012  as authors write it


def test_a_profile_may_put_its_own_factories_in_place_of_those_of_pyjms(jms_broker_url: str) -> None:
    environment = Environment(jms_broker_url, OtherApi())
    factory = environment.factory(ConnectionFactory, client_id="clerk")
    assert type(factory) is OurFactory
    with factory.create_connection() as connection:
        assert connection.client_id == "clerk"
    assert type(environment.factory(QueueConnectionFactory)) is QueueConnectionFactory


def test_facts_are_what_the_provider_says(environment: Environment) -> None:
    facts = environment.facts
    assert (facts.name, facts.jms_version) == ("pyjms embedded broker", "2.0")
    assert Capability.EMBEDDED_BROKER in facts.capabilities
    assert environment.facts is facts


def test_a_provider_that_is_not_there_is_told() -> None:
    with pytest.raises(JMSException, match="no provider is installed"):
        _ = Environment("nowhere://x", Profile()).facts


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("vm://shop", "vm://shop"),
        ("stomp://guest:secret@host:61613?tls=1", "stomp://host:61613"),
        ("folder:///var/messages?key=secret", "folder:///var/messages"),
    ],
)
def test_the_url_is_shown_without_secrets(url: str, shown: str) -> None:
    assert Environment(url, Profile()).shown_url == shown


def waits_of(capabilities: Capability, profile: Profile) -> Waits:
    environment = Environment("vm://x", profile)
    environment._facts = Facts(name="x", version="1", jms_version="1.1", capabilities=capabilities)
    return environment.waits


def test_a_broker_elsewhere_is_given_more_time_for_nothing() -> None:
    class Patient(Profile):
        nothing_ms = 7
        something_ms = 8

    assert waits_of(Capability.EMBEDDED_BROKER, Profile()).nothing_ms == NOTHING_EMBEDDED_MS
    assert waits_of(Capability.NONE, Profile()).nothing_ms == NOTHING_MS
    assert waits_of(Capability.EMBEDDED_BROKER, Patient()) == Waits(something_ms=8, nothing_ms=7)


def test_waiting_ends_with_the_condition() -> None:
    answers: Iterator[bool] = iter([False, False, True])
    Waits(something_ms=20_000, nothing_ms=1).until(lambda: next(answers), "it is so")
    assert next(answers, None) is None


def test_waiting_in_vain_is_told() -> None:
    with pytest.raises(CheckError, match="waited 20 ms in vain until it is so") as raised:
        Waits(something_ms=20, nothing_ms=1).until(lambda: False, "it is so")
    assert (raised.value.expected, raised.value.seen) == ("it is so", "not so after 20 ms")


def test_a_pause_ends() -> None:
    Waits(something_ms=1, nothing_ms=1).pause()


def test_names_are_used_once(environment: Environment, jms_broker_url: str) -> None:
    other = Environment(jms_broker_url, Profile())
    names = [one.make_name("queue") for one in (environment, environment, other, other)]
    assert len(set(names)) == 4
    assert all(name.startswith("queue_") and name.isidentifier() for name in names)


def test_a_provider_behind_faults_is_a_provider(jms_broker_url: str) -> None:
    with Faults(jms_broker_url) as faults:
        assert Environment(faults.url, Profile()).facts.name == "pyjms embedded broker"
