"""What the embedded broker says of itself."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from pyjms.spi.provider import ProviderInfo

__all__ = ["embedded_broker_info"]


@cache  # the version is looked up on the disk
def embedded_broker_info() -> ProviderInfo:
    """Return the name and the version of the broker, and the properties that it sets."""
    return ProviderInfo(
        name="pyjms embedded broker",
        version=_version(),
        jmsx_property_names=("JMSXDeliveryCount", "JMSXGroupID", "JMSXGroupSeq"),
    )


def _version() -> str:
    try:
        return version("pyjms")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0"
