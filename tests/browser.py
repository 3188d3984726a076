"""Chromium, as the tests of pages open it."""

from __future__ import annotations

from selenium import webdriver

from tests.needs import table
from tests.needs.declaring import use
from tests.ports import free_port

__all__ = ["open_browser"]


def open_browser(*, dark: bool = False, width: int = 1200) -> webdriver.Chrome:
    """Start a browser without a window; who calls ends it with `quit`."""
    use("browser")
    found = table.browser()
    assert found is not None, table.missing_text("browser")
    program, driver = found
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},900"):
        options.add_argument(argument)
    if dark:
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver, port=free_port()))
