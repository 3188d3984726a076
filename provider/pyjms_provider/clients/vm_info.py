"""What the embedded broker says of itself."""

from __future__ import annotations

from functools import cache

from pyjms.spi.provider import ProviderInfo
from pyjms.spi.version import installed_version

__all__ = ["embedded_broker_info"]


@cache  # the version is looked up on the disk
def embedded_broker_info() -> ProviderInfo:
    """Return the name and the version of the broker, and the properties that it sets."""
    return ProviderInfo(
        name="pyjms embedded broker",
        version=installed_version(),
        jmsx_property_names=("JMSXDeliveryCount", "JMSXGroupID", "JMSXGroupSeq"),
    )
