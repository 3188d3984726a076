"""The parts that know no sockets: options, profiles, and the errors for what a broker says."""

from __future__ import annotations

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    AccessDeniedError,
    DestinationError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
    RolledBackError,
    SubscriptionInUseError,
    TooLargeError,
    UrlError,
)
from pyjms.spi.url import ProviderUrl
from pyjms_provider.amqp.capabilities import CONFIRMED_SETTLEMENT
from pyjms_provider.amqp.performatives import ACCEPTED, RELEASED, Error, Modified, Open, Rejected
from pyjms_provider.clients.amqp import profiles
from pyjms_provider.clients.amqp.options import AmqpSettings, read_url
from pyjms_provider.clients.amqp.profiles import BrokerProfile, profile_of
from pyjms_provider.clients.amqp.provider import AmqpProvider
from pyjms_provider.clients.amqp.refusals import login_refusal, outcome_refusal, refusal
from pyjms_provider.clients.network.endpoints import Endpoint


def settings(text: str) -> AmqpSettings:
    return read_url(ProviderUrl.parse(text))


@pytest.mark.parametrize(
    ("url", "port", "has_tls"),
    [("amqp://h", 5672, False), ("amqps://h", 5671, True), ("amqp+ws://h", 80, False), ("amqp+wss://h", 443, True)],
)
def test_each_scheme_has_its_port_and_its_tls(url: str, port: int, has_tls: bool) -> None:
    read = settings(url)
    assert read.endpoints == (Endpoint("h", port),)
    assert (read.tls is not None) is has_tls
    assert read.confirm_acknowledge
    assert read.redirects


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("amqp://h?prefetch=3", "no option 'prefetch'"),
        ("amqp://h?prefetch_messages=0", "prefetch_messages='0' is no number from 1"),
        ("amqp://h?mechanism=GSSAPI", "SCRAM-SHA-256|PLAIN"),
        ("amqp://h?verify=no", "write amqps://h"),
        ("amqp+ws://h?ca_file=x", "write amqp+wss://h"),
        ("amqp://h/path", "virtual_host=NAME"),
        ("amqp://", "amqp://127.0.0.1:5672"),
        ("amqp://h?failover=a:70000", "'a:70000' in failover="),
    ],
)
def test_what_a_url_says_wrongly_is_told(url: str, says: str) -> None:
    with pytest.raises(UrlError) as caught:
        AmqpProvider().check_url(ProviderUrl.parse(url))
    assert says in caught.value.reason


def test_credentials_go_to_all_places_of_the_url() -> None:
    url = ProviderUrl.parse("amqps://First?failover=second:7")
    assert AmqpProvider().login_places(url) == ("amqps://first:5671", "amqps://second:7")


@pytest.mark.parametrize(
    ("properties", "host", "name"),
    [
        ({"product": "apache-activemq-artemis", "version": "2.40.0"}, "h", profiles.ARTEMIS.name),
        ({"product": "ActiveMQ", "version": "5.18.3"}, "h", profiles.CLASSIC.name),
        ({"product": "qpid", "version": "9.2.1"}, "h", profiles.BROKER_J.name),
        ({"product": "RabbitMQ", "version": "4.1.0"}, "h", profiles.RABBITMQ.name),
        ({"product": "pyjms", "version": "0.2.0"}, "h", profiles.PYJMS.name),
        (None, "shop.servicebus.windows.net", profiles.SERVICE_BUS.name),
        ({"product": "another"}, "h", profiles.UNKNOWN.name),
        (None, "h", profiles.UNKNOWN.name),
    ],
)
def test_a_broker_is_recognised_by_its_open(properties: dict[str, str] | None, host: str, name: str) -> None:
    assert profile_of(Open("c", properties=properties), host).name == name


def test_what_open_offers_is_added() -> None:
    plain = profile_of(Open("c"), "h")
    rich = profile_of(Open("c", offered_capabilities=("SHARED-SUBS", "DELAYED_DELIVERY", CONFIRMED_SETTLEMENT)), "h")
    added = Capability.SHARED_SUBSCRIPTIONS | Capability.DELIVERY_DELAY
    assert not plain.capabilities & added
    assert rich.capabilities == plain.capabilities | added
    assert (plain.confirms, rich.confirms) == (False, True)


@pytest.mark.parametrize("product", ["ActiveMQ", "qpid"])
def test_the_url_says_whether_a_broker_delays_that_does_not_tell_its_configuration(product: str) -> None:
    opened = Open("c", properties={"product": product}, offered_capabilities=("DELAYED_DELIVERY",))
    silent, told = profile_of(opened, "h"), profile_of(opened, "h", is_told_to_delay=True)
    assert Capability.DELIVERY_DELAY not in silent.capabilities
    assert told.capabilities == silent.capabilities | Capability.DELIVERY_DELAY
    assert "delivery_delay=yes" in silent.reasons[Capability.DELIVERY_DELAY]


def test_the_url_gives_no_other_broker_a_delay() -> None:
    opened = Open("c", properties={"product": "RabbitMQ"})
    assert Capability.DELIVERY_DELAY not in profile_of(opened, "h", is_told_to_delay=True).capabilities


def test_only_profiles_that_were_tried_say_so() -> None:
    assert [each.is_tested for each in (profiles.ARTEMIS, profiles.CLASSIC, profiles.BROKER_J)] == [True] * 3
    assert [each.is_tested for each in (profiles.RABBITMQ, profiles.SERVICE_BUS, profiles.UNKNOWN)] == [False] * 3


def test_addresses_have_the_prefixes_of_the_broker() -> None:
    said = profile_of(Open("c", properties={"queue-prefix": "q.", "topic-prefix": "t."}), "h")
    queue, topic = Address(AddressKind.QUEUE, "a"), Address(AddressKind.TOPIC, "a")
    assert (said.to_broker(queue), said.to_broker(topic)) == ("q.a", "t.a")
    assert said.to_broker(Address(AddressKind.QUEUE, "x", temporary=True)) == "x"
    assert said.from_broker("t.a") == ("a", AddressKind.TOPIC)
    assert said.from_broker("a") == ("a", None)


def test_names_are_quoted_where_the_broker_asks_for_it() -> None:
    rabbit: BrokerProfile = profiles.RABBITMQ
    address = Address(AddressKind.QUEUE, "a/b c")
    assert rabbit.to_broker(address) == "/queues/a%2Fb%20c"
    assert rabbit.from_broker("/queues/a%2Fb%20c") == ("a/b c", AddressKind.QUEUE)


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("amqp:not-found", DestinationError),
        ("amqp:unauthorized-access", AccessDeniedError),
        ("amqp:resource-limit-exceeded", ResourceError),
        ("amqp:link:message-size-exceeded", TooLargeError),
        ("amqp:link:stolen", SubscriptionInUseError),
        ("amqp:transaction:rollback", RolledBackError),
        ("com.example:odd", ProviderError),
    ],
)
def test_a_condition_is_an_error_of_the_spi(condition: str, kind: type[ProviderError]) -> None:
    error = refusal(Error(condition, "the  broker\nsays it"))
    assert type(error) is kind
    assert error.reason == f"the broker refused it: the broker says it ({condition})"


def test_outcomes_but_accepted_are_errors() -> None:
    assert outcome_refusal(ACCEPTED) is None
    assert isinstance(outcome_refusal(RELEASED), ResourceError)
    assert isinstance(outcome_refusal(Modified(True)), ResourceError)
    assert isinstance(outcome_refusal(Rejected(Error("amqp:not-found"))), DestinationError)
    assert isinstance(outcome_refusal(Rejected()), ResourceError)


def test_a_client_id_in_use_is_told_from_other_refusals() -> None:
    in_use = Error("amqp:invalid-field", "in use", {"invalid-field": "container-id"})
    assert isinstance(login_refusal(in_use), DuplicateClientIdError)
    assert isinstance(login_refusal(Error("amqp:unauthorized-access")), AccessDeniedError)
    assert type(login_refusal(Error("amqp:connection:forced", "stops"))) is ResourceError
    assert type(login_refusal(None)) is ResourceError
