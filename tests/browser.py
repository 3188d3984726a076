"""Chromium, as the tests of pages open it."""

from __future__ import annotations

import shutil
from typing import Final

from selenium import webdriver

from tests.ports import free_port

__all__ = ["open_browser"]

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


def open_browser(*, dark: bool = False, width: int = 1200) -> webdriver.Chrome:
    """Start a browser without a window; who calls ends it with `quit`."""
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    assert program, "pages are tested in Chromium: on Debian, apt-get install chromium chromium-driver"
    assert driver, "Chromium is driven by chromedriver: on Debian, apt-get install chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},900"):
        options.add_argument(argument)
    if dark:
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver, port=free_port()))
