"""The profile of the embedded broker with a store, through `pyjms.aio`."""

from types import MappingProxyType

from pyjms import ConnectionFactory, XAConnectionFactory
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_tck.profile import Profile
from tests.pyjms.aio.face import Factory, XAFactory


class FaceProfile(Profile):
    """As `stored_profile.py` of the published reports, with the other face."""

    factories = MappingProxyType({ConnectionFactory: Factory, XAConnectionFactory: XAFactory})
    unsupported = MappingProxyType(
        {
            **dict.fromkeys(
                ("8.2", "20.2-o", "20.2-p"), "pyjms.aio has no connection consumers: they hand out threads"
            ),
            "20.4-k": "a completion listener is no coroutine, so what it closes through asyncio is closed by another thread",
        }
    )
    parallel = 1  # a store serves one broker, and each process has its own

    def restart_broker(self) -> None:
        """Stop the broker of this process; one starts with the next connection."""
        url = ProviderUrl.parse(self.url)
        find_provider(url.scheme).stop_broker(url)
