"""Capabilities that `open` offers and desires: those that Apache Qpid JMS and brokers know, and one of pyjms's own."""

from __future__ import annotations

from typing import Final

SOLE_CONNECTION: Final = "sole-connection-for-container"
"""At most one connection has a container id: that is how a client id is unique."""
DELAYED_DELIVERY: Final = "DELAYED_DELIVERY"
"""Messages wait for the delivery time in their annotations."""
SHARED_SUBSCRIPTIONS: Final = "SHARED-SUBS"
"""Subscriptions of several consumers."""
ANONYMOUS_RELAY: Final = "ANONYMOUS-RELAY"
"""A link without an address, whose messages say where they go."""
CONFIRMED_SETTLEMENT: Final = "pyjms:confirmed-settlement"
"""A disposition that tells an outcome without settling the delivery is answered with one that settles it, when the outcome is stored as
safely as that of a transaction. Receivers with the settle mode "second" so learn that a message never comes again.
"""
