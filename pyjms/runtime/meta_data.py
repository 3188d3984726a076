"""What a connection says of itself (JMS 1.1 §4.3.6)."""

from __future__ import annotations

from pyjms.api.connection import ConnectionMetaData
from pyjms.api.enumeration import Enumeration
from pyjms.spi.provider import ProviderInfo

__all__ = ["JmsConnectionMetaData"]


class JmsConnectionMetaData(ConnectionMetaData):
    """Names and versions of the API and of the provider."""

    __slots__ = ("_info", "_major", "_minor")

    def __init__(self, info: ProviderInfo) -> None:
        self._info = info
        digits = [int(part) if part.isdecimal() else 0 for part in info.version.split(".")[:2]]
        self._major, self._minor = (*digits, 0, 0)[:2]

    @property
    def jms_version(self) -> str:
        return "1.1"

    @property
    def jms_major_version(self) -> int:
        return 1

    @property
    def jms_minor_version(self) -> int:
        return 1

    @property
    def jms_provider_name(self) -> str:
        return self._info.name

    @property
    def provider_version(self) -> str:
        return self._info.version

    @property
    def provider_major_version(self) -> int:
        return self._major

    @property
    def provider_minor_version(self) -> int:
        return self._minor

    @property
    def jmsx_property_names(self) -> Enumeration[str]:
        return Enumeration(self._info.jmsx_property_names)
