"""The parts that know no sockets: options, heart-beats, back-off, selectors, refusals, the table of states."""

from __future__ import annotations

from itertools import product

import pytest

from pyjms.spi.errors import (
    AccessDeniedError,
    CapabilityError,
    DestinationError,
    DuplicateClientIdError,
    ProviderError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
    UrlError,
)
from pyjms.spi.selector import compile_selector
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.network.failover import TRANSITIONS, FailoverEvent, FailoverState
from pyjms_provider.clients.stomp.foreign.subscribing import selector_text
from pyjms_provider.clients.stomp.options import OPTIONS, StompSettings, read_url
from pyjms_provider.clients.stomp.physical_connection import refusal
from pyjms_provider.clients.stomp.transport import HeartBeat
from pyjms_provider.protocols.stomp.dialects import ARTEMIS, CLASSIC, PYJMS
from pyjms_provider.protocols.stomp.frames import Frame


def settings(text: str) -> StompSettings:
    return read_url(ProviderUrl.parse(text))


def test_a_url_may_name_several_places() -> None:
    read = settings("stomp://first?failover=second:7,[::1]:8,third,first")
    assert read.endpoints == (
        Endpoint("first", 61613),
        Endpoint("second", 7),
        Endpoint("::1", 8),
        Endpoint("third", 61613),
    )
    assert [str(each) for each in read.endpoints] == ["first:61613", "second:7", "[::1]:8", "third:61613"]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("stomp://h?prefetch=3", "no option 'prefetch'"),
        ("stomp://h?prefetch_messages=0", "prefetch_messages='0' is no number from 1"),
        ("stomp://h?prefetch_messages=ten", "prefetch_messages=10"),
        ("stomp://h?heart_beat_ms=-1", "heart_beat_ms"),
        ("stomp://h?reconnect=maybe", "reconnect=yes|no"),
        ("stomp://h?delivery_delay=500", "delivery_delay=yes|no"),
        ("stomp://h?dialect=kafka", "pyjms|activemq|artemis|rabbitmq"),
        ("stomp://h?verify=no", "write stomps://h"),
        ("stomps://h?ca_file=", "ca_file= is empty"),
        ("stomps://h?key_file=k.pem", "certificate_file=client.pem"),
        ("stomp://h?failover=a:70000", "'a:70000' in failover="),
        ("stomp://h?failover=a,,b", "failover=other:61613"),
        ("stomp://h/path", "virtual_host=NAME"),
        ("stomp://", "does not name a host"),
        ("stomp://h?transactions=yes", "transactions=atomic|best-effort"),
        ("stomp://h?dead_letter_queue=", "dead_letter_queue= is empty"),
    ],
)
def test_what_a_url_gets_wrong_is_named_with_what_would_be_right(url: str, says: str) -> None:
    with pytest.raises(UrlError) as caught:
        settings(url)
    assert says in str(caught.value)


def test_every_option_is_read() -> None:
    given = dict.fromkeys(OPTIONS, "1")
    given |= {"failover": "a", "dialect": "rabbitmq", "reconnect": "no", "confirm_acknowledge": "no", "verify": "no"}
    given |= {"transactions": "best-effort", "frame_bytes_max": "1024", "delivery_delay": "yes"}
    base, read = settings("stomps://h"), settings("stomps://h?" + "&".join(f"{n}={v}" for n, v in given.items()))
    same = [name for name in OPTIONS if getattr(read, name, None) == getattr(base, name, 0) and hasattr(read, name)]
    assert same == []


def test_heart_beats_are_the_slower_of_what_both_sides_want() -> None:
    beats = HeartBeat(100, "300,50", 0)
    assert (beats.send_every_ms, beats.expect_every_ms) == (100, 300)
    beats = HeartBeat(100, "0,0", 0)
    assert (beats.send_every_ms, beats.expect_every_ms, beats.wait_ms(0)) == (0, 0, None)
    assert HeartBeat(0, "10,10", 0).wait_ms(5) is None
    assert HeartBeat(100, "garbage", 0).wait_ms(5) is None


def test_a_heart_beat_is_due_after_half_of_the_period_and_silence_is_borne_for_two() -> None:
    beats = HeartBeat(1000, "1000,1000", 0)
    assert not beats.is_due(499)
    assert beats.is_due(500)
    beats.sent_ms = 500
    assert not beats.is_due(999)
    assert not beats.is_dead(3000)
    assert beats.is_dead(3001)
    beats.received_ms = 3000
    assert not beats.is_dead(6000)


def test_the_wait_is_until_the_next_thing_to_do() -> None:
    beats = HeartBeat(1000, "1000,1000", 0)
    assert beats.wait_ms(100) == 400
    beats.sent_ms = 10_000
    assert beats.wait_ms(2900) == 101


def test_a_lost_connection_heals_or_is_given_up_and_a_closed_one_stays_closed() -> None:
    allowed = {
        (FailoverState.CONNECTED, FailoverEvent.LOSE),
        (FailoverState.RECONNECTING, FailoverEvent.HEAL),
        (FailoverState.RECONNECTING, FailoverEvent.GIVE_UP),
        (FailoverState.CONNECTED, FailoverEvent.CLOSE),
        (FailoverState.RECONNECTING, FailoverEvent.CLOSE),
        (FailoverState.LOST, FailoverEvent.CLOSE),
    }
    assert {pair for pair in product(FailoverState, FailoverEvent) if pair in TRANSITIONS} == allowed


@pytest.mark.parametrize(
    ("selector", "written"),
    [
        ("n > 1", "n > 1.0"),
        ("n BETWEEN 15 AND 19", "n BETWEEN 15.0 AND 19.0"),
        ("b AND NOT c", "(b = TRUE) AND NOT (c = TRUE)"),
        ("name = 'a''b 1' OR name LIKE 'x_1'", "name = 'a''b 1' OR name LIKE 'x_1'"),
        ("JMSPriority + 1 > 4", "JMSPriority + 1 > 4.0"),
        ("x IS NULL", "x IS NULL"),
    ],
)
def test_a_selector_is_written_for_a_broker_that_sees_texts(selector: str, written: str) -> None:
    assert selector_text(compile_selector(selector), CLASSIC) == written


def test_artemis_has_names_of_its_own_and_needs_a_prefix() -> None:
    text = selector_text(compile_selector("JMSPriority > 4 AND name = 'JMSPriority'"), ARTEMIS)
    assert text == "convert_string_expressions:AMQPriority > 4.0 AND name = 'JMSPriority'"


@pytest.mark.parametrize(
    "selector", ["a = b", "a + 1 = 2", "-a < 3", "a BETWEEN b AND 3", "JMSMessageID = 'ID:1'", "selector = 'x'"]
)
def test_a_selector_that_would_mean_something_else_is_refused(selector: str) -> None:
    with pytest.raises(CapabilityError, match="ActiveMQ Classic"):
        selector_text(compile_selector(selector), CLASSIC)
    assert selector_text(compile_selector(selector), PYJMS) == selector


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("java.lang.SecurityException: User name [x] or password is invalid.", AccessDeniedError),
        ("Access refused for user 'x'", AccessDeniedError),
        ("javax.jms.InvalidClientIDException: Broker: b - Client: x already connected", DuplicateClientIdError),
        ("Durable consumer is in use for client: a and subscriptionName: b", SubscriptionInUseError),
        ("No durable subscription exists for clientID: a and subscriptionName: b", UnknownSubscriptionError),
        (
            "org.apache.activemq.DestinationDoesNotExistException: The destination temp-queue://x does not exist.",
            DestinationError,
        ),
        ("anything else", ProviderError),
    ],
)
def test_what_brokers_say_becomes_the_error_that_fits(words: str, kind: type[ProviderError]) -> None:
    assert type(refusal(Frame("ERROR", {"message": words}))) is kind


def test_a_refusal_shows_the_brokers_words_without_its_stack() -> None:
    error = refusal(Frame("ERROR", {"message": "short"}, b"longer words\n\tat org.example.Class(Class.java:1)"))
    assert error.reason == "the broker refused it: short: longer words"
