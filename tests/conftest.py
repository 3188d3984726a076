"""What the whole suite shares."""

import pytest

pytest.register_assert_rewrite("pyjms_tck.spi")  # before anything imports it, whatever is collected first

pytest_plugins = ["pytester", "tests.brokers.plugin", "tests.traceability.plugin"]
