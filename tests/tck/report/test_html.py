"""The page as text; `test_page.py` uses it in a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from pyjms_tck.report.html import picture, to_html
from pyjms_tck.results import Outcome
from tests.tck.samples import failure, judgement, requirement, result, waived_report

if TYPE_CHECKING:
    from pyjms_tck.results import Report

VOID = {"meta", "link", "input", "rect"}


class Outline(HTMLParser):
    """Which elements there are, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in {"src", "href"} and value]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag


def test_every_element_is_closed(report: Report) -> None:
    assert "details" in Outline(to_html(report)).tags


def test_nothing_comes_from_elsewhere(report: Report) -> None:
    text = to_html(report)
    addresses = Outline(text).addresses
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_hostile_texts_stay_texts(report: Report) -> None:
    evil = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'"
    bad = result(evil, "3.1-a", outcome=Outcome.FAILED, failure=failure(**dict.fromkeys(("expected", "seen", "where", "details"), evil)), observed=(evil,))  # fmt: skip
    one = judgement(requirement("3.1-a", statement=evil, hint=evil), Outcome.FAILED, bad)
    about = replace(report.provider, name=evil, version=evil, title=evil, jms_version=evil)
    text = to_html(replace(report, judgements=(one,), provider=about, selection=(evil,), given_up=evil))
    outline = Outline(text)
    assert outline.tags.count("script") == 1
    assert "img" not in outline.tags


def test_the_picture_shows_each_chapter_that_has_requirements(report: Report) -> None:
    text = picture(report)
    assert re.findall(r'data-chapter="(\d+)"', text) == ["3", "4"]
    assert re.findall(r"<title>(.*?)</title>", text) == [
        "3 Messages: 1 passed, 1 failed",
        "4 Facilities: 1 passed, 1 not supported, 1 not testable",
    ]


def test_the_parts_of_a_bar_fill_it_and_a_single_failure_is_seen(report: Report) -> None:
    failed = judgement(requirement("3.0-a"), Outcome.FAILED)
    many = (failed, *(judgement(requirement(f"3.{n}-a")) for n in range(1, 1000)))
    text = picture(replace(report, judgements=many))
    parts = {
        name: (float(x), float(width))
        for name, x, width in re.findall(r'<rect class="(\w+)" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', text)
    }
    assert parts["failed"][1] >= 2.9
    assert parts["passed"][0] == 230
    assert abs(sum(width for _, width in parts.values()) - 560) < 0.2


def test_what_conforms_in_part_does_not_look_as_if_all_were_well() -> None:
    assert '<h1 class="unsupported">⊘ Conforms in part to JMS 1.1: the profile waives 4.7-b' in to_html(waived_report())
