"""The names of properties that providers set, not the clients that send a message (JMS 1.1 §3.5.9)."""

from __future__ import annotations

from typing import Final

__all__ = ["SET_BY_PROVIDERS"]

SET_BY_PROVIDERS: Final = frozenset(
    {
        "JMSXUserID",
        "JMSXAppID",
        "JMSXDeliveryCount",
        "JMSXProducerTXID",
        "JMSXConsumerTXID",
        "JMSXRcvTimestamp",
        "JMSXState",
    }
)
"""A broker does not take them from a client: the value would be the client's word, and others believe that the provider said it."""
