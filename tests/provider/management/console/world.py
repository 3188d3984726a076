"""A served broker with a console, and a browser that looks at it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.request import Request, urlopen

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from pyjms_provider.model.managed import ManagedObject
from pyjms_provider.serving.served_broker import ServedBroker

PATIENCE_S = 60.0
T = TypeVar("T")


class World:
    """A broker in this process that lets everybody in: one virtual host, a STOMP port, and one for operators."""

    def __init__(self, served: ServedBroker, http_port: int = 0) -> None:
        self.served = served
        top = served.broker
        top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        allow = {"effect": "allow", "who": "*"}
        top.create_child("access_control", {"name": "access", "rules": [allow]})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        self.host: ManagedObject = node.create_child("virtual_host", {"name": "shop"})
        chosen = {"port": 0, "authentication_providers": ["anonymous"], "access_control": "access"}
        self.stomp = self._port(top.create_child("port", {"name": "clients", "type": "stomp", **chosen}))
        operators = {"name": "operators", "type": "http", **chosen, "port": http_port}
        self.http = self._port(top.create_child("port", operators))

    @staticmethod
    def _port(port: Any) -> str:
        return str(port.addresses[0])

    def queue(self, name: str, **attributes: Any) -> ManagedObject:
        return self.host.create_child("queue", {"name": name, **attributes})

    def publish(self, queue: ManagedObject, **message: Any) -> str:
        return str(queue.invoke("publish", {"message": message}))


@contextmanager
def open_world(http_port: int = 0) -> Iterator[World]:
    with ServedBroker.open(name="shop") as served:
        yield World(served, http_port)


def ask(url: str, *, headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body; what is refused, too."""
    from urllib.error import HTTPError

    request = Request(url, headers=dict(headers or {}))
    try:
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except HTTPError as error:
        with error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()


class Console:
    """The console in a browser, with waits in place of pauses."""

    def __init__(self, browser: webdriver.Chrome, address: str) -> None:
        self.browser = browser
        self.address = address

    def open(self, place: str = "") -> None:
        """Open the page afresh."""
        self.browser.get("about:blank")
        self.browser.get(f"{self.address}/console/{place}")

    def go(self, place: str) -> None:
        """Go to another view without a new page."""
        self.browser.execute_script("location.hash = arguments[0]", place)

    def until(self, condition: Callable[[], T | None], what: str) -> T:
        """Wait until the condition holds, and return what it found."""

        def holds(_: object) -> T | None:
            try:
                return condition()
            except StaleElementReferenceException:
                return None

        return WebDriverWait(self.browser, PATIENCE_S, poll_frequency=0.05).until(holds, f"waited for {what}")  # type: ignore[return-value]

    def all(self, selector: str) -> list[WebElement]:
        return [each for each in self.browser.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()]

    def one(self, selector: str, text: str | None = None) -> WebElement:
        """Return the first shown element, that has the text, once there is one."""

        def found() -> WebElement | None:
            return next((each for each in self.all(selector) if text is None or text in each.text), None)

        return self.until(found, f"{selector} {text or ''}")

    def gone(self, selector: str) -> None:
        self.until(lambda: not self.all(selector) or None, f"{selector} to go")

    def click(self, selector: str, text: str | None = None) -> None:
        def clicked() -> bool:
            found = self.one(selector, text)
            self.run("arguments[0].scrollIntoView({block: 'center'})", found)  # not under the page's head
            found.click()
            return True

        self.until(clicked, f"a click on {selector}")

    def fill(self, selector: str, text: str) -> None:
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def press(self, *keys: str) -> None:
        """Type to whatever has the focus."""
        self.browser.switch_to.active_element.send_keys(*keys)

    def confirm(self) -> None:
        """Press the button of the open dialog that does it, and wait until the dialog has gone."""
        self.click("dialog[open] button[type=submit]")

        def ended() -> bool | None:
            refused = self.all("dialog[open] .problem")
            assert not refused, refused[0].text
            return not self.all("dialog[open]") or None

        self.until(ended, "the dialog to close")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        """Return what the browser has complained about since the last call; what was refused is no complaint."""
        log: list[dict[str, Any]] = self.browser.get_log("browser")  # type: ignore[no-untyped-call]
        return [json.dumps(each) for each in log if each.get("source") != "network"]


__all__ = ["Console", "Keys", "World", "ask", "open_world"]
