"""Requests to an http port that wait: so many, and no more; and who else is answered meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from threading import Event, Semaphore
from typing import Any

import anyio
import httpx2
import pytest

from pyjms_provider.management.errors import BusyError
from pyjms_provider.management.rest import monitoring
from pyjms_provider.management.rest import threads as threads_module
from pyjms_provider.management.rest.identity import Identity, peer_of
from pyjms_provider.management.rest.monitoring import Metrics
from pyjms_provider.management.rest.threads import MOST_OF_ONE, LogInThreads, WaitingThreads
from pyjms_provider.management.service import ManagementService
from pyjms_provider.security.access import parse_rules, rules_to_data
from pyjms_provider.security.user_file import UserFile
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.management.world import ROOT, basic, error_of, ok
from tests.pyjms.runtime.helpers import PATIENCE_S

PASSWORD = "correct horse battery"
MANY = 45
"""More than the threads of a pool of AnyIO."""
NO_TLS = SSLContext(PROTOCOL_TLS_CLIENT)
"""For hundreds of requests over http: each would read the certificates of the system, for 50 ms of processor."""


class Waiting:
    """Operations that wait until they may go on."""

    def __init__(self) -> None:
        self.begun = Semaphore(0)
        self.may_go_on = Event()

    def invoke(self, *_: Any, **__: Any) -> str:
        """Take the place of `ManagementService.invoke`."""
        self.begun.release()
        assert self.may_go_on.wait(PATIENCE_S)
        return "done"


@pytest.fixture
def url(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an http port; its parameter says who may read metrics there."""
    with ServedBroker.open(name="shop") as served:
        top = served.broker
        UserFile(tmp_path / "users").add("ann", PASSWORD, ["admins"])
        users = {"name": "users", "type": "user-file", "path": str(tmp_path / "users")}
        top.create_child("authentication_provider", users)
        rules = rules_to_data(parse_rules("allow group:admins all *"))
        top.create_child("access_control", {"name": "access", "rules": rules})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        node.create_child("virtual_host", {"name": "shop"}).create_child("queue", {"name": "orders"})
        chosen = {"port": 0, "authentication_providers": ["users"], "access_control": "access"}
        metrics = getattr(request, "param", "open")
        port: Any = top.create_child("port", {"name": "http", "type": "http", "metrics": metrics, **chosen})
        yield port.addresses[0]


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    made = Waiting()
    monkeypatch.setattr(ManagementService, "invoke", made.invoke)
    yield made
    made.may_go_on.set()


def ask(url: str, path: str, timeout_s: float = PATIENCE_S) -> httpx2.Response:
    headers = {"authorization": basic("ann", PASSWORD)}
    return httpx2.get(url + path, headers=headers, timeout=timeout_s, verify=NO_TLS)


def purge(url: str) -> httpx2.Response:
    headers = {"authorization": basic("ann", PASSWORD), "x-requested-with": "a test"}
    path = f"{ROOT}/queue/main/shop/orders/purge"
    return httpx2.post(url + path, json={}, headers=headers, timeout=PATIENCE_S, verify=NO_TLS)


@pytest.mark.parametrize(
    "path", ["/health/live", "/health/ready", "/api/whoami", "/metrics", f"{ROOT}/queue/main/shop"]
)
def test_requests_that_wait_keep_nobody_else_from_an_answer(url: str, waiting: Waiting, path: str) -> None:
    ok(ask(url, "/api/whoami"))  # from now on the password is known
    with ThreadPoolExecutor(MANY) as clients:
        asked = [clients.submit(purge, url) for _ in range(MANY)]
        for _ in range(40):
            assert waiting.begun.acquire(timeout=PATIENCE_S)
        try:
            answer = ask(url, path, PATIENCE_S / 2).status_code
        except httpx2.TimeoutException:
            answer = 0
        waiting.may_go_on.set()
        assert [ok(each.result(PATIENCE_S)) for each in asked] == [{"result": "done"}] * MANY
    assert answer == 200


class SlowLogIns:
    """Log-ins from 127.0.0.1 wait until they may go on, as where another server is asked; those from elsewhere do not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.may_go_on = Semaphore(0), Event()
        judge = Identity.by_credentials

        def judge_late(identity: Identity, request: Any) -> Any:
            if peer_of(request) == "127.0.0.1":
                self.begun.release()
                assert self.may_go_on.wait(PATIENCE_S)
            return judge(identity, request)

        monkeypatch.setattr(Identity, "by_credentials", judge_late)

    def while_many_wait(self, url: str, ask_meanwhile: Callable[[], httpx2.Response], path: str = "/api/whoami") -> int:
        """Return the status that somebody else is answered with; 0: it came too late."""
        with ThreadPoolExecutor(MANY) as clients:
            asked = [clients.submit(ask, url, path) for _ in range(MANY)]
            try:
                for _ in range(MOST_OF_ONE):
                    assert self.begun.acquire(timeout=PATIENCE_S)
                answer = ask_meanwhile().status_code
            except httpx2.TimeoutException:
                answer = 0
            finally:
                self.may_go_on.set()
            assert {each.result(2 * PATIENCE_S).status_code for each in asked} <= {200, 503}
        return answer


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_log_ins_that_wait_keep_nobody_from_watching(url: str, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    slow = SlowLogIns(monkeypatch)
    assert slow.while_many_wait(url, lambda: ask(url, path, PATIENCE_S / 2)) == 200


def test_who_is_logged_in_does_not_wait_for_those_who_log_in(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with httpx2.Client(base_url=url, timeout=PATIENCE_S / 2) as client:
        ok(client.post("/api/login", json={"user_name": "ann", "password": PASSWORD}))
        slow = SlowLogIns(monkeypatch)
        assert slow.while_many_wait(url, lambda: client.get("/api/whoami")) == 200


def test_log_ins_of_one_network_leave_threads_to_others(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowLogIns(monkeypatch)
    transport = httpx2.HTTPTransport(local_address="127.0.0.2")
    with httpx2.Client(base_url=url, timeout=PATIENCE_S / 2, transport=transport) as elsewhere:
        headers = {"authorization": basic("ann", PASSWORD)}
        assert slow.while_many_wait(url, lambda: elsewhere.get("/api/whoami", headers=headers)) == 200


@pytest.mark.parametrize("url", ["login"], indirect=True)
def test_log_ins_that_wait_keep_no_scraper_that_logs_in_from_metrics(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowLogIns(monkeypatch)
    transport = httpx2.HTTPTransport(local_address="127.0.0.2")
    with httpx2.Client(base_url=url, timeout=PATIENCE_S / 2, transport=transport) as elsewhere:
        headers = {"authorization": basic("ann", PASSWORD)}
        assert slow.while_many_wait(url, lambda: elsewhere.get("/metrics", headers=headers), path="/metrics") == 200


def test_too_many_log_ins_of_one_network_are_refused_and_leave_nothing() -> None:
    async def run() -> None:
        threads, begun, may_end = LogInThreads(4, 1, 0.01), anyio.Event(), Event()

        def work() -> None:
            anyio.from_thread.run_sync(begun.set)
            assert may_end.wait(PATIENCE_S)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(threads.run, "10.0.0.1", work)
            await begun.wait()
            with pytest.raises(BusyError, match="1 log-ins of your network, or 4 of all, wait already"):
                await threads.run("10.0.0.1", int)
            assert await threads.run("10.0.0.2", int, "7") == 7
            may_end.set()
        assert await threads.run("10.0.0.1", int, "8") == 8
        assert not threads._networks

    anyio.run(run)


def test_who_watches_too_often_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(threads_module.WaitingThreads.__init__, "__defaults__", (MANY, 0.01, "requests wait"))
    monkeypatch.setattr(monitoring, "_MOST", 1)
    begun, may_go_on, render = Semaphore(0), Event(), Metrics.render

    def render_late(metrics: Metrics) -> bytes:
        begun.release()
        assert may_go_on.wait(PATIENCE_S)
        return render(metrics)

    monkeypatch.setattr(Metrics, "render", render_late)
    url: str = request.getfixturevalue("url")
    with ThreadPoolExecutor(1) as clients:
        first = clients.submit(ask, url, "/metrics")
        assert begun.acquire(timeout=PATIENCE_S)
        assert error_of(ask(url, "/metrics"), 503)["code"] == "PYJMS-REQUEST-BUSY"
        assert ask(url, "/health/ready").status_code == 200
        may_go_on.set()
        assert first.result(PATIENCE_S).status_code == 200


def test_one_more_than_may_wait_is_refused(
    tmp_path: Path, waiting: Waiting, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(threads_module.WaitingThreads.__init__, "__defaults__", (2, 0.01, "requests wait"))
    url: str = request.getfixturevalue("url")
    with ThreadPoolExecutor(2) as clients:
        asked = [clients.submit(purge, url) for _ in range(2)]
        for _ in range(2):
            assert waiting.begun.acquire(timeout=PATIENCE_S)
        assert error_of(purge(url), 503)["code"] == "PYJMS-REQUEST-BUSY"
        waiting.may_go_on.set()
        assert [ok(each.result(PATIENCE_S)) for each in asked] == [{"result": "done"}] * 2
    assert ok(purge(url)) == {"result": "done"}


def test_a_turn_is_free_again_after_an_error_and_after_one_who_gave_up() -> None:
    async def run() -> None:
        threads, begun, may_end = WaitingThreads(1, 0.01), anyio.Event(), Event()

        def work() -> None:
            anyio.from_thread.run_sync(begun.set)
            assert may_end.wait(PATIENCE_S)
            raise ValueError("wrong")

        async def fail() -> None:
            with pytest.raises(ValueError, match="wrong"):
                await threads.run(work)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail)
            await begun.wait()
            with pytest.raises(BusyError, match="1 requests to this port wait already"):
                await threads.run(int)
            may_end.set()
        assert await threads.run(int, "7") == 7

    anyio.run(run)
