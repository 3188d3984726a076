"""Forwarding between sites: a queue here, destinations there, each message once, whatever dies on the way.

On two transacted sessions of any two providers of the SPI; how it is used is in docs/how-to/forwarding.md.
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
