"""What the whole suite shares."""

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is the machine's matter, and other tests use it, too.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

pytest.register_assert_rewrite("pyjms_tck.spi")  # before anything imports it, whatever is collected first

pytest_plugins = ["pytester", "tests.brokers.plugin", "tests.traceability.plugin"]
