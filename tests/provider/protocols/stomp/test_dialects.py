"""The broker is known by its name, and its facts fit together."""

from __future__ import annotations

import pytest

from pyjms.spi.capability import Capability
from pyjms_provider.protocols.stomp.dialects import (
    ARTEMIS,
    CLASSIC,
    DIALECTS,
    PYJMS,
    RABBITMQ,
    Dialect,
    NackMeaning,
    PrefetchUnit,
    UnknownDialectError,
    dialect_named,
    dialect_of_server,
)

ALL = list(DIALECTS.values())


@pytest.mark.parametrize(
    ("server", "dialect"),
    [
        ("pyjms/0.1.0", PYJMS),
        ("ActiveMQ/5.17.2", CLASSIC),
        ("ActiveMQ-Artemis/2.45.0 ActiveMQ Artemis Messaging Engine", ARTEMIS),
        ("RabbitMQ/3.10.8", RABBITMQ),
    ],
)
def test_a_broker_is_known_by_its_server_header(server: str, dialect: Dialect) -> None:
    assert dialect_of_server(server) is dialect


@pytest.mark.parametrize("server", [None, "", "CoilMQ/1.1", "activemq/5"])
def test_a_broker_that_is_not_known_is_not_guessed(server: str | None) -> None:
    with pytest.raises(UnknownDialectError, match=r"\?dialect=pyjms\|activemq\|artemis\|rabbitmq"):
        dialect_of_server(server)


def test_a_dialect_is_named_in_the_url() -> None:
    assert [dialect_named(name) for name in DIALECTS] == ALL
    with pytest.raises(UnknownDialectError, match="choose one of pyjms, activemq, artemis, rabbitmq"):
        dialect_named("coilmq")


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
def test_what_a_dialect_can_do_it_has_the_means_for(dialect: Dialect) -> None:
    can = dialect.capabilities
    assert (Capability.SELECTORS in can) == (dialect.selector_header is not None)
    assert (Capability.BROWSING in can) == (dialect.browser is not None)
    assert (Capability.TRANSACTIONS in can) == (dialect.transacts_sends and dialect.transacts_acknowledgements)
    assert (Capability.DELIVERY_DELAY in can) == (dialect.delay_header is not None and not dialect.delays_if_configured)
    assert not [each for each in dialect.reasons if each in can]
    assert bool(dialect.durable_name_header) != bool(dialect.durable_headers)
    assert (dialect.expiry_header == "expires") != dialect.expiry_is_relative
    assert Capability.EMBEDDED_BROKER | Capability.SHARED_TRANSACTIONS not in can


def test_only_our_own_broker_has_what_the_profile_alone_can_say() -> None:
    ours = Capability.XA | Capability.REDELIVERY_COUNT | Capability.REDELIVERY_LIMITS
    assert [dialect for dialect in ALL if dialect.capabilities & ours] == [PYJMS]


def test_nack_loses_messages_on_artemis() -> None:
    assert [dialect.nack for dialect in ALL] == [
        NackMeaning.RETRIES,
        NackMeaning.REJECTS,
        NackMeaning.SETTLES,
        NackMeaning.REQUEUES,
    ]


def test_artemis_counts_bytes() -> None:
    assert [dialect for dialect in ALL if dialect.prefetch_unit is PrefetchUnit.BYTES] == [ARTEMIS]
