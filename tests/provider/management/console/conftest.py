"""Fixtures of the tests of the console: one browser for all of them, a broker for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium import webdriver

from tests.browser import open_browser
from tests.provider.management.console.world import Console, World, open_world


@pytest.fixture(scope="session")
def chromium() -> Iterator[webdriver.Chrome]:
    browser = open_browser(width=1360)
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as made:
        yield made


@pytest.fixture
def console(chromium: webdriver.Chrome, world: World) -> Iterator[Console]:
    """The console of `world`, not yet opened. The browser must have nothing to complain about."""
    found = Console(chromium, world.http)
    yield found
    complaints = found.complaints()
    chromium.get("about:blank")
    assert complaints == []
