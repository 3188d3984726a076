"""The brokers that the clients of others meet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.needs.declaring import needing
from tests.provider.commands.served import BrokerProcess
from tests.sampling import IS_WHOLE

BROKERS = ["pyjms", needing("artemis")] if IS_WHOLE else ["pyjms"]
"""What these tests demand of our broker, Artemis does: the whole suite shows that."""


@pytest.fixture(scope="module")
def both_urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Return where a broker of ours listens that lets in everybody, for AMQP and for STOMP."""
    listening = [f"--listen={scheme}://127.0.0.1:0" for scheme in ("amqp", "stomp")]
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), *listening, "--anonymous")
    try:
        amqp, stomp = process.announced("amqp", "stomp")
        yield amqp, stomp
    finally:
        process.end()


@pytest.fixture(params=BROKERS)
def amqp_url(request: pytest.FixtureRequest) -> str:
    """Return where a broker listens."""
    if request.param == "artemis":
        return f"amqp://127.0.0.1:{request.getfixturevalue('artemis')['amqp']}"
    amqp: str = request.getfixturevalue("both_urls")[0]
    return amqp
