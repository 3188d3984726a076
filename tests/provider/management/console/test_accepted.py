"""What a new operator does on the first day, with the commands and a browser alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver

from tests.provider.management.console.world import Console

PASSWORD = "correct horse battery"
PYJMS = (str(Path(sys.executable).with_name("pyjms")),)


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run the broker of the folder; give the address of its operators' port."""
    with subprocess.Popen(
        (*PYJMS, "broker", "run"), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            addresses = (line.split()[1] for line in process.stdout if line.startswith("listening "))
            yield next(address for address in addresses if address.startswith("http://"))
        finally:
            process.terminate()
            process.communicate(timeout=120)


def log_in(console: Console, user: str, password: str) -> None:
    console.open()
    console.fill("#user-name", user)
    console.fill("#password", password)
    console.click("button[type=submit]")


def create_user(console: Console) -> None:
    console.go("#/tree/authentication_provider/users")
    console.click("[data-create=user]")
    console.fill("dialog [name=name]", "bob")
    console.fill("dialog [name=password]", "another long password")
    console.fill("dialog [name=groups]", "staff")
    console.confirm()
    console.one("h1", "bob")


def create_queue(console: Console) -> None:
    console.go("#/queues")
    console.one("h1", "Queues")
    console.click("[data-key=new]")
    console.fill("dialog [name=name]", "orders")
    console.fill("dialog [name=max_messages]", "1000")
    console.confirm()
    console.one("h1", "orders")


def send(console: Console) -> None:
    console.click("#send")
    console.fill("dialog textarea", '{"order": 7}')
    console.click("dialog button", "Add a property")
    console.fill("dialog .property input:first-child", "region")
    console.fill("dialog .property input[aria-label^=Value]", "north")
    console.confirm()


def create_port(console: Console) -> None:
    console.go("#/tree/broker")
    console.click("[data-create=port]")
    console.fill("dialog [name=name]", "second")
    console.fill("dialog [name=port]", "0")
    console.click("dialog [name=authentication_providers][value=users]")
    console.fill("dialog [name=access_control]", "access")
    console.confirm()
    console.one("h1", "second")
    console.one(".chip", "active")


def lose_the_session(console: Console) -> None:
    """Log in again where the console is, as after half an hour away."""
    console.browser.delete_all_cookies()
    console.one("dialog[open]", "Your session has ended")
    console.fill("dialog #user-name", "ann")
    console.fill("dialog #password", PASSWORD)
    console.confirm()
    console.one("h1", "second")


def browse(console: Console) -> None:
    console.go("#/queue/default/default/orders")
    console.one("h1", "orders")
    console.click("tbody button.link")
    assert console.one("pre.body").text == '{\n  "order": 7\n}'
    cells = [cell.text for cell in console.all(".detail .values tbody td")]
    assert cells == ["region", "string", "north"]


@pytest.mark.timeout(300)  # five processes begin and end
@pytest.mark.realises("BJ-WEB-1", "BJ-HTTP-1")
def test_a_new_operator_makes_a_broker_and_finds_all_again_after_a_restart(
    tmp_path: Path, chromium: webdriver.Chrome
) -> None:
    command = (*PYJMS, "broker", "init", "--user", "ann", "--stomp-port", "0", "--http-port", "0")
    environment = {**os.environ, "PYJMS_PASSWORD": PASSWORD}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=120)
    file = tmp_path / "broker.toml"
    file.write_text(
        file.read_text().replace('name = "broker"\n', 'name = "broker"\nlogin_notice = "Only <b>staff</b>."\n')
    )
    with running(tmp_path) as address:
        console = Console(chromium, address)
        log_in(console, "ann", "a guess")
        console.one(".notice", "Only <b>staff</b>.")
        assert "PYJMS-" in console.one(".problem").text
        log_in(console, "ann", PASSWORD)
        console.one("h1", "Overview")
        create_user(console)
        create_queue(console)
        send(console)
        browse(console)
        create_port(console)
        lose_the_session(console)
    with running(tmp_path) as address:
        console = Console(chromium, address)
        log_in(console, "ann", PASSWORD)
        console.one("h1", "Overview")
        console.go("#/tree/user/users/bob")
        console.one("h1", "bob")
        console.one(".panel", "staff")
        console.go("#/tree/port/second")
        console.one("h1", "second")
        console.one(".panel .chip", "active")
        browse(console)
        asked = console.run("return performance.getEntriesByType('resource').map(each => each.name)")
        beyond_files = [url for url in asked if not url.startswith(f"{address}/console/")]
        assert beyond_files
        assert [url for url in beyond_files if not url.startswith(f"{address}/api/")] == []
        console.click("#log-out")
        console.one("#password")
        assert console.complaints() == []
