"""What the whole suite shares."""

import gc
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.provider.postgresql import PostgresqlServer
from tests.sampling import SEED_NAME, draw_seed

# How long an example takes is the machine's matter, and other tests use it, too.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

pytest.register_assert_rewrite("pyjms_tck.spi")  # before anything imports it, whatever is collected first

pytest_plugins = [
    "pytester",
    "tests.brokers.plugin",
    "tests.needs.plugin",
    "tests.pyjms.forwarding.two_sites",
    "tests.scheduling",
    "tests.traceability.plugin",
]

draw_seed()

_LONG_NAME = 200
_LONG_S = 500
"""Who may take so long takes a minute or more."""


def pytest_configure() -> None:
    """Have programs that tests start hear signals that who has started the suite ignores, as `nohup` does, and a shell in the background.

    They would inherit that. A handler they do not: what begins anew has the default.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server for all tests of this process."""
    server = PostgresqlServer()
    yield server
    server.remove()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a test with a long text after its beginning: every worker tells the names of all tests, and each report has one."""
    if isinstance(val, str | bytes) and len(val) > _LONG_NAME:
        return f"{val[:20]!a} and {len(val) - 20} more"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is collected out of the garbage collector's sight.

    It is half a million objects which all stay: the collector would look through them while they are made, and again and
    again while tests run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: else one worker is busy with it after all others have ended."""
    items.sort(key=lambda item: not _takes_long(item))


def _takes_long(item: pytest.Item) -> bool:
    limit = item.get_closest_marker("timeout")
    return limit is not None and limit.args[0] >= _LONG_S


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how to draw the same samples, where something failed that may depend on them."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"{SEED_NAME}={os.environ[SEED_NAME]} draws the same samples again")
