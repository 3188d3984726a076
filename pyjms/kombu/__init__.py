"""A transport for kombu, and so for Celery: every broker that pyjms reaches, as ``pyjms+stomp://HOST`` or ``pyjms+vm://NAME``.

To import this module makes the name ``pyjms`` known to kombu. It needs the SPI alone, as each message is acknowledged by
itself, which JMS 1.1 does not know.
"""

from kombu.transport import TRANSPORT_ALIASES

from pyjms.kombu.transport import Channel, Transport

__all__ = ["Channel", "Transport"]

TRANSPORT_ALIASES["pyjms"] = "pyjms.kombu:Transport"
