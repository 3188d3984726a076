from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.provider.protocols.amqp.raw_broker import RawBroker, served_url

URL = "PYJMS_RAW_AMQP_URL"
"""Names another broker for the tests that speak frame by frame, such as ``amqp://user:password@127.0.0.1:5672``."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    if URL in os.environ:
        yield os.environ[URL]
        return
    with served_url() as url:
        yield url


@pytest.fixture
def broker(url: str) -> Iterator[RawBroker]:
    broker = RawBroker(url)
    yield broker
    broker.close()
