"""Capabilities that `open` offers and desires: those that Apache Qpid JMS and brokers know, and pyjms's own, with the names that belong to these."""

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
COMMANDS: Final = "pyjms:commands"
"""The coordinator takes the commands of pyjms clients: distributed transactions, reader groups, staged units, registered clients."""
GREETING: Final = "pyjms:greeting"
"""The property of the broker's open that says to a client which desires `COMMANDS` what the broker can do."""
TRANSACTED: Final = "pyjms:transacted"
"""The property of a begin: what is sent and accepted in the session belongs to its open transaction."""
PAGES: Final = "$pages"
"""The source of a link on which messages of reader groups come."""
NUMBER: Final = "x-opt-pyjms-number"
"""The delivery annotation that has the number of a message in its reader group."""
REDELIVERED: Final = "x-opt-pyjms-redelivered"
"""The delivery annotation that says whether a message of a reader group was delivered before."""
NON_PERSISTENT_IN_MEMORY: Final = "pyjms:non-persistent-in-memory"
"""The broker writes no NON_PERSISTENT message to its store: a sender that waited for its outcome would not learn that it is safe."""
