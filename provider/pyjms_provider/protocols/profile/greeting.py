"""What the broker says of itself to a pyjms client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spi.capability import Capability
from pyjms_provider.protocols.profile.answers import Greeting

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.hosts import ServedHost


def greeting_of(connection: ProviderConnection, host: ServedHost, *, body_max: int) -> Greeting:
    """Return the greeting of a connection to a virtual host. May wait; raises `ProviderError`.

    Args:
        connection: the client's.
        host: the virtual host.
        body_max: the largest message that the port takes, in bytes.
    """
    capabilities = connection.capabilities & ~(Capability.EMBEDDED_BROKER | Capability.SHARED_TRANSACTIONS)
    lacking = [each for each in Capability if each not in capabilities]
    return Greeting(
        capabilities=capabilities,
        resource_manager=connection.resource_manager,
        transaction_timeout_s=_transaction_timeout_s(connection),
        jmsx_property_names=connection.info.jmsx_property_names,
        advice={each: text for each in lacking if (text := connection.advice(each))},
        can_find=True,
        can_prepare=Capability.XA in capabilities,
        body_max=body_max,
        persists_all=host.persists_all,
    )


def _transaction_timeout_s(connection: ProviderConnection) -> int:
    # Only sessions of the SPI have this time.
    session = connection.open_session(transacted=False)
    try:
        return session.xa_get_timeout()
    finally:
        session.close()
