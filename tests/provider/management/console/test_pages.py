"""The console's files as they are sent, and what must never be in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import pytest

from pyjms_provider.management.console.pages import PAGE, console_files
from tests.provider.management.console.world import World, ask

SOURCES: Mapping[str, str] = {name: found.content.decode() for name, found in console_files().items()}
SCRIPTS = {name: text for name, text in SOURCES.items() if name.endswith(".js")}


@pytest.mark.realises("BJ-WEB-1", "BJ-HTTP-5")
def test_the_port_of_operators_serves_the_console_and_leads_there(world: World) -> None:
    status, headers, body = ask(f"{world.http}/")  # follows the way from / to /console/
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert b"/console/main.js" in body


def test_every_file_comes_with_its_type_and_may_run_nothing_from_elsewhere(world: World) -> None:
    for name, found in console_files().items():
        status, headers, body = ask(f"{world.http}/console/{name}")
        assert (status, body) == (200, found.content)
        assert headers["content-type"] == found.content_type
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_a_copy_that_is_still_right_is_not_sent_again(world: World) -> None:
    address = f"{world.http}/console/main.js"
    _, headers, _ = ask(address)
    assert headers["cache-control"] == "no-cache"
    status, again, body = ask(address, headers={"if-none-match": f'"other", W/{headers["etag"]}'})
    assert (status, body, again["etag"]) == (304, b"", headers["etag"])
    assert ask(address, headers={"if-none-match": '"other"'})[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "../pages.py",
        "..%2fpages.py",
        "%2e%2e/pages.py",
        "views/../../pages.py",
        "/etc/passwd",
        "views/",
        "views",
        "..%5cpages.py",
        "main.js%00",
        "nothing",
    ],
)
def test_no_path_leads_out_of_the_folder(world: World, path: str) -> None:
    import http.client

    connection = http.client.HTTPConnection(world.http.removeprefix("http://"), timeout=10)  # sends paths as they are
    try:
        connection.request("GET", f"/console/{path}")
        answer = connection.getresponse()
        assert answer.status == 404
        assert b"import" not in answer.read()
    finally:
        connection.close()


def test_what_a_file_refers_to_is_there() -> None:
    for name, text in SCRIPTS.items():
        folder = Path(name).parent
        for found in re.findall(r"""(?:from|import\()\s*"(\.[^"]+)\"""", text):
            assert (folder / found).as_posix().replace("views/../", "") in SOURCES, f"{name} imports {found}"
    for found in re.findall(r'(?:href|src)="/console/([^"]+)"', SOURCES[PAGE]):
        assert found in SOURCES


BANNED = (
    r"\b(inner|outer)HTML\b",
    r"\binsertAdjacentHTML\b",
    r"\bdocument\.write\b",
    r"\beval\s*\(",
    r"\bnew Function\b",
    r"\bsrcdoc\b",
    r"\bjavascript:",
    r"\bcreateContextualFragment\b",
    r"""setAttribute\("(style|on)""",
    r"https?://(?!www\.w3\.org/)",
)


@pytest.mark.parametrize("pattern", BANNED)
def test_no_file_reads_text_as_html_or_code_or_fetches_from_elsewhere(pattern: str) -> None:
    found = {name for name, text in SOURCES.items() if re.search(pattern, text)}
    assert found == set()


def test_the_page_has_no_script_and_no_style_of_its_own() -> None:
    page = SOURCES[PAGE]
    assert re.search(r"<style|\sstyle=|\son\w+=", page) is None
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]


def test_modules_are_short() -> None:
    assert {name: len(text.splitlines()) for name, text in SOURCES.items() if len(text.splitlines()) > 350} == {}


def test_all_files_of_the_folder_are_served() -> None:
    folder = Path(str(files("pyjms_provider.management.console"))) / "static"
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == set(SOURCES)
