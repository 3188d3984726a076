"""What the whole suite shares."""

import pytest

pytest.register_assert_rewrite("tests.pyjms.spi.contract")  # before anything imports it, whatever is collected first

pytest_plugins = ["pytester", "tests.traceability.plugin"]
