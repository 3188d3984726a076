"""Forwarding between sites: from a local queue to remote destinations, each message exactly once, even after crashes.

Works on two transacted sessions of any two SPI providers; docs/how-to/forwarding.md describes its use.
"""

from pyjms.forwarding.runner import RouteThread
from pyjms.forwarding.settings import Guarantee, RouteSettings, Site, Target
from pyjms.forwarding.transfer import Transfer
from pyjms.forwarding.unit import OutgoingMessage, Plan, UndeliverableError, to_all
from pyjms.spi.clock import BackOff

__all__ = [
    "BackOff",
    "Guarantee",
    "OutgoingMessage",
    "Plan",
    "RouteSettings",
    "RouteThread",
    "Site",
    "Target",
    "Transfer",
    "UndeliverableError",
    "to_all",
]
