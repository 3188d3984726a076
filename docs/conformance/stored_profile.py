"""The profile of the embedded broker with a store: `pyjms-tck run 'vm://x?store=URL' --profile stored_profile.py`."""

from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_tck.profile import Profile


class StoredProfile(Profile):
    """The broker is stopped, and starts again from its store with the next connection."""

    parallel = 1  # a store serves one broker, and each process has its own

    def restart_broker(self) -> None:
        """Stop the broker of this process."""
        url = ProviderUrl.parse(self.url)
        find_provider(url.scheme).stop_broker(url)
