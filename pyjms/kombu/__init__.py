"""A transport for kombu, and so for Celery: every broker that pyjms reaches, as ``pyjms+stomp://HOST`` or ``pyjms+vm://NAME``.

Importing this module registers the name ``pyjms`` with kombu. It uses only the SPI, as each message is acknowledged
individually, which JMS 1.1 does not offer.
"""

from kombu.transport import TRANSPORT_ALIASES

from pyjms.kombu.transport import Channel, Transport

__all__ = ["Channel", "Transport"]

TRANSPORT_ALIASES["pyjms"] = "pyjms.kombu:Transport"
