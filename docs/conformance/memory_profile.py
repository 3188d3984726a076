"""The profile of the embedded broker without a store: `pyjms-tck run vm://x --profile memory_profile.py`."""

from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_tck.profile import Profile

_REASON = "messages are kept in memory and end with the broker"


class MemoryProfile(Profile):
    """The broker is stopped with all that it holds, and an empty one starts with the next connection."""

    unsupported = dict.fromkeys(("4.7-b", "4.10-a"), _REASON)

    def restart_broker(self) -> None:
        """Stop the broker of this process."""
        url = ProviderUrl.parse(self.url)
        find_provider(url.scheme).stop_broker(url)
