"""The HTML report in a real browser, without a screen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from pyjms_tck.report.html import to_html
from tests.browser import open_browser
from tests.tck.samples import sample_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver.remote.webelement import WebElement


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    browser = open_browser()
    yield browser
    browser.quit()


@pytest.fixture
def page(chromium: webdriver.Chrome, tmp_path: Path) -> Iterator[webdriver.Chrome]:
    """The report of `samples`, opened. The browser must have nothing to complain about."""
    path = tmp_path / "report.html"
    path.write_text(to_html(sample_report()), "utf-8")
    chromium.get(path.as_uri())
    yield chromium
    assert chromium.get_log("browser") == []  # type: ignore[no-untyped-call]  # selenium has no types here


def shown(page: webdriver.Chrome) -> list[str]:
    rows = page.find_elements(By.CSS_SELECTOR, ".r")
    return [str(row.get_attribute("id")).removeprefix("r-") for row in rows if row.is_displayed()]


def one(page: webdriver.Chrome, selector: str) -> WebElement:
    return page.find_element(By.CSS_SELECTOR, selector)


def test_the_verdict_and_the_counts_are_seen_first(page: webdriver.Chrome) -> None:
    assert one(page, "h1").text == "✗ Does not conform to JMS 1.1: 1 requirement failed"
    tiles = [tile.text.split() for tile in page.find_elements(By.CSS_SELECTOR, ".tile")]
    assert [tile[0] for tile in tiles] == ["2", "1", "1", "1"]
    assert one(page, ".picture svg").size["height"] > 40
    assert shown(page) == ["3.4.1-a", "3.4.2-a", "4.1-a", "4.2-a", "4.3-a"]
    assert one(page, "#shown").text == "5 of 5 requirements"


def test_what_failed_is_open_and_says_what_was_expected_and_seen(page: webdriver.Chrome) -> None:
    row = one(page, "#r-3\\.4\\.2-a")
    assert one(page, ".r .expected").text == "expected\npriority 9"
    assert one(page, ".r .seen").text == "seen\npriority 4"
    assert "What to check: Look at 3.4.2-a." in row.text
    assert "A <message> & its 'priority'." in row.text


def test_an_outcome_filters_and_a_second_click_takes_that_back(page: webdriver.Chrome) -> None:
    failed, passed = (one(page, f".tile.{name}") for name in ("failed", "passed"))
    failed.click()
    assert shown(page) == ["3.4.2-a"]
    assert one(page, "#shown").text == "1 of 5 requirements"
    assert [section.is_displayed() for section in page.find_elements(By.CSS_SELECTOR, ".chapter")] == [True, False]
    passed.click()
    assert shown(page) == ["3.4.1-a", "3.4.2-a", "4.3-a"]
    failed.click()
    passed.click()
    assert len(shown(page)) == 5


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4.3", ["4.3-a"]),
        ("JMS:SPEC:2", ["3.4.1-a"]),
        ("PRIORITY message", ["3.4.2-a"]),
        ("redelivers", ["4.3-a"]),
        ("nothing of the kind", []),
    ],
)
def test_the_search_finds_ids_words_and_assertions(page: webdriver.Chrome, text: str, found: list[str]) -> None:
    one(page, "#search").send_keys(text)
    assert shown(page) == found
    assert one(page, "#none").is_displayed() is (not found)
    one(page, "#clear").click()
    assert len(shown(page)) == 5


def test_chapter_and_level_filter_together(page: webdriver.Chrome) -> None:
    one(page, "#chapter option[value='4']").click()
    one(page, "#level option[value='undefined']").click()
    assert shown(page) == ["4.3-a"]


def test_a_bar_of_the_picture_chooses_its_chapter_by_mouse_and_by_key(page: webdriver.Chrome) -> None:
    bar = one(page, ".picture g[data-chapter='4']")
    bar.click()
    assert shown(page) == ["4.1-a", "4.2-a", "4.3-a"]
    bar.send_keys(Keys.ENTER)
    assert len(shown(page)) == 5


def test_a_link_opens_its_requirement_even_when_it_is_filtered_out(page: webdriver.Chrome) -> None:
    one(page, ".tile.passed").click()
    assert "3.4.2-a" not in shown(page)
    one(page, ".first a[href='#r-3.4.2-a']").click()
    WebDriverWait(page, 20).until(lambda page: "3.4.2-a" in shown(page))
    assert one(page, "#r-3\\.4\\.2-a").get_attribute("open") == "true"


def background(page: webdriver.Chrome) -> str:
    return str(one(page, "body").value_of_css_property("background-color"))


def brightness(colour: str) -> int:
    return sum(int(part) for part in colour.partition("(")[2].replace(")", "").split(",")[:3])


def test_the_page_is_light_or_dark_as_its_reader_likes(page: webdriver.Chrome) -> None:
    assert brightness(background(page)) > 600
    one(page, "#theme").click()
    assert brightness(background(page)) < 150
    assert brightness(str(one(page, ".r .statement").value_of_css_property("color"))) > 600
    one(page, "#theme").click()
    assert brightness(background(page)) > 600


@pytest.mark.requires("browser")
def test_the_page_is_dark_where_the_system_is(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(to_html(sample_report()), "utf-8")
    browser = open_browser(dark=True)
    try:
        browser.get(path.as_uri())
        assert brightness(background(browser)) < 150
    finally:
        browser.quit()


def test_a_narrow_screen_needs_no_sideways_scrolling(page: webdriver.Chrome) -> None:
    page.set_window_size(500, 900)
    try:
        width = page.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert width <= 0
    finally:
        page.set_window_size(1200, 900)


def test_a_report_without_failures_is_cheerful(chromium: webdriver.Chrome, tmp_path: Path) -> None:
    sample = sample_report()
    path = tmp_path / "report.html"
    path.write_text(to_html(replace(sample, judgements=(sample.judgements[0],))), "utf-8")
    chromium.get(path.as_uri())
    assert one(chromium, "h1").text == "✓ Conforms to JMS 1.1"
    assert chromium.find_elements(By.CSS_SELECTOR, "h2.failed") == []
