"""The contract tests for ``pyjms-tck spi URL``: on the provider that the command names."""

from contextlib import suppress

import pytest

from pyjms.spi.errors import CapabilityError
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_tck.fixtures import ENVIRONMENT
from pyjms_tck.spi.suite import *  # noqa: F403  pytest finds tests in the namespace of a module


@pytest.fixture
def provider_url(pytestconfig: pytest.Config) -> str:
    """The URL of the command line. A broker in this process starts again for each test, with the test's clock."""
    url = pytestconfig.stash[ENVIRONMENT].url
    parsed = ProviderUrl.parse(url)
    # A remote broker cannot be stopped from here, and has a clock of its own in any case.
    with suppress(CapabilityError):
        find_provider(parsed.scheme).stop_broker(parsed)
    return url


@pytest.fixture(name="provider_credentials")
def _credentials(pytestconfig: pytest.Config) -> tuple[str | None, str | None]:
    """The profile's credentials, in place of none."""
    profile = pytestconfig.stash[ENVIRONMENT].profile
    return profile.user_name, profile.password
