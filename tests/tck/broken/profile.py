"""The profile of the broker in this process as mutants are judged by: its waits are short, and it can be restarted."""

from __future__ import annotations

from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_tck.profile import Profile
from tests.tck.broken.guarded import WRONG

__all__ = ["MutantProfile"]


class MutantProfile(Profile):
    """Impatient: most faults show in what does not come."""

    something_ms = 1_000
    nothing_ms = 40
    limit_s = 4.0
    chaos_ms = 400
    wrong_credentials = WRONG

    def restart_broker(self) -> None:
        """Stop the broker; the next connection starts it."""
        url = ProviderUrl.parse(self.url)
        find_provider(url.scheme).stop_broker(url)
