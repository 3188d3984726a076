"""Why ActiveMQ Classic refuses what it lacks: it lacks the same over STOMP and over AMQP."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyjms.spi.capability import Capability

REASONS: Final[Mapping[Capability, str]] = MappingProxyType(
    {
        Capability.SHARED_SUBSCRIPTIONS: (
            "each of its subscriptions has one consumer; a virtual topic, which the operator configures, copies the messages of a "
            "topic to a queue for several consumers"
        ),
        Capability.DELIVERY_DELAY: (
            "it delays messages if schedulerSupport is true in its configuration, which it tells no client: then write "
            "delivery_delay=yes in the URL"
        ),
    }
)
