from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Event

import pytest

from pyjms.spi.errors import ResourceError
from pyjms_provider.protocols.engine import BatchJob
from pyjms_provider.transport import workers
from pyjms_provider.transport.service import NetworkService
from pyjms_provider.transport.workers import WorkerSettings
from tests.provider.transport.world import PATIENCE_S

Outcome = tuple[object, BaseException | None]


class Pool:
    def __init__(self, service: NetworkService) -> None:
        self.service = service
        self.told: SimpleQueue[Outcome] = SimpleQueue()
        self.told_on: SimpleQueue[str] = SimpleQueue()

    def submit(self, *calls: Callable[[], object], brief: bool = False, patient: bool = False) -> None:
        async def there() -> None:
            for call in calls:
                self.service.workers.submit(call, self.tell, brief=brief, patient=patient)

        self.service.run(there()).result(PATIENCE_S)

    def tell(self, result: object, error: BaseException | None) -> None:
        self.told_on.put(threading.current_thread().name)
        self.told.put((result, error))

    def next(self) -> Outcome:
        return self.told.get(timeout=PATIENCE_S)

    @property
    def threads(self) -> int:
        return self.service.workers.thread_count


@contextmanager
def pool_of(settings: WorkerSettings) -> Iterator[Pool]:
    with NetworkService("test", workers=settings) as service:
        yield Pool(service)


@pytest.fixture
def pool() -> Iterator[Pool]:
    with pool_of(WorkerSettings()) as pool:
        yield pool


def test_a_job_runs_elsewhere_and_is_told_on_the_loop(pool: Pool) -> None:
    pool.submit(lambda: threading.current_thread().name)
    result, error = pool.next()
    assert (result, error) == ("pyjms worker test 1", None)
    assert pool.told_on.get(timeout=PATIENCE_S) == "pyjms network test"


def test_what_a_job_raises_is_told(pool: Pool) -> None:
    fault = ValueError("no")

    def fail() -> None:
        raise fault

    pool.submit(fail)
    assert pool.next() == (None, fault)


def test_short_jobs_share_a_thread(pool: Pool) -> None:
    for _ in range(20):
        pool.submit(lambda: None)
        pool.next()
    assert pool.threads == 1


def test_jobs_that_are_stuck_do_not_starve_others(pool: Pool) -> None:
    gate = Event()
    try:
        for _ in range(40):
            pool.submit(lambda: gate.wait(PATIENCE_S))
        pool.submit(lambda: "served")
        assert pool.next() == ("served", None)
        assert pool.threads > 40
    finally:
        gate.set()
    assert [pool.next() for _ in range(40)] == [(True, None)] * 40


def test_when_all_are_stuck_a_job_is_refused_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    gate = Event()
    with pool_of(WorkerSettings(quick=2, most=4, patience_s=0.05)) as pool:
        try:
            for _ in range(4):
                pool.submit(lambda: gate.wait(PATIENCE_S))
            pool.submit(lambda: "served")
            result, error = pool.next()
            assert result is None
            assert isinstance(error, ResourceError)
            assert "4 requests that wait" in str(error)
            assert pool.threads == 4
        finally:
            gate.set()
        for _ in range(4):
            pool.next()
        pool.submit(lambda: "served")
        assert pool.next() == ("served", None)
    assert "PYJMS-NET-11" in caplog.text


def test_those_that_wait_for_other_clients_leave_threads_to_those(caplog: pytest.LogCaptureFixture) -> None:
    gate, begun = Event(), SimpleQueue[str]()

    def wait() -> None:
        begun.put("begun")
        gate.wait(PATIENCE_S)

    with pool_of(WorkerSettings(quick=2, most=4, patience_s=0.05)) as pool:
        try:
            pool.submit(wait, wait, wait, patient=True)
            _, error = pool.next()
            assert isinstance(error, ResourceError)
            assert "2 requests that wait for room" in str(error)
            assert [begun.get(timeout=PATIENCE_S) for _ in range(2)] == ["begun"] * 2
            assert begun.empty()
            pool.submit(lambda: "makes room", brief=True)
            pool.submit(lambda: "logs in")
            assert {pool.next(), pool.next()} == {("makes room", None), ("logs in", None)}
        finally:
            gate.set()
        assert [pool.next(), pool.next()] == [(None, None)] * 2
    assert "PYJMS-NET-11" in caplog.text


def test_who_waits_for_other_clients_goes_on_when_one_of_them_has_done_so() -> None:
    gates = [Event(), Event(), Event()]
    with pool_of(WorkerSettings(quick=2, most=4)) as pool:
        try:
            pool.submit(*[partial(gate.wait, PATIENCE_S) for gate in gates], patient=True)
            pool.submit(lambda: "served")
            assert pool.next() == ("served", None)
            for gate in gates:
                gate.set()
                assert pool.next() == (True, None)
        finally:
            for gate in gates:
                gate.set()


def test_the_threads_end_with_the_service() -> None:
    with pool_of(WorkerSettings()) as pool:
        pool.submit(lambda: None)
        pool.next()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pyjms worker test")]


def test_a_stop_does_not_wait_for_a_job_that_never_ends(caplog: pytest.LogCaptureFixture) -> None:
    gate = Event()
    service = NetworkService("test")
    service.start()
    Pool(service).submit(lambda: gate.wait(PATIENCE_S))
    service.stop(graceful_s=0.05)
    assert "PYJMS-NET-12" in caplog.text
    for thread in threading.enumerate():
        if thread.name.startswith("pyjms worker test"):
            gate.set()
            thread.join(PATIENCE_S)
    assert gate.is_set()


LOOP, THREAD = "pyjms network test", "pyjms worker test 1"


def name_of_thread() -> str:
    return threading.current_thread().name


def test_a_brief_job_runs_on_the_loop_if_it_is_the_only_one(pool: Pool) -> None:
    pool.submit(name_of_thread, brief=True)
    assert pool.next() == (LOOP, None)
    assert pool.threads == 0


def test_brief_jobs_at_the_same_time_go_to_threads_where_they_share_a_write(pool: Pool) -> None:
    pool.submit(name_of_thread, name_of_thread, brief=True)
    assert LOOP not in (pool.next()[0], pool.next()[0])


def test_brief_jobs_at_the_same_time_are_done_together_if_they_can_be(pool: Pool) -> None:
    done: SimpleQueue[tuple[str, list[int]]] = SimpleQueue()
    ended: SimpleQueue[tuple[int, BaseException | None]] = SimpleQueue()
    fault = ValueError("the second one")

    def together(parts: Sequence[int]) -> list[BaseException | None]:
        done.put((name_of_thread(), list(parts)))
        return [fault if part == 1 else None for part in parts]

    def batch(number: int) -> BatchJob:
        return BatchJob(together, number, lambda error: ended.put((number, error)))

    async def there() -> None:
        for number in range(3):
            pool.service.workers.submit(name_of_thread, pool.tell, brief=True, batch=batch(number))
        pool.service.workers.submit(name_of_thread, pool.tell, brief=True)

    pool.service.run(there()).result(PATIENCE_S)
    assert sorted([pool.next() for _ in range(4)], key=str) == [(LOOP, None), (None, None), (None, None), (None, None)]
    assert done.get(timeout=PATIENCE_S) == (LOOP, [0, 1, 2])
    assert [ended.get(timeout=PATIENCE_S) for _ in range(3)] == [(0, None), (1, fault), (2, None)]
    assert done.empty()


def test_a_fault_of_what_is_done_together_is_told_to_all(pool: Pool) -> None:
    fault = ValueError("no")
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def together(parts: Sequence[int]) -> list[BaseException | None]:
        raise fault

    def tell(error: BaseException | None) -> None:
        ended.put(error)
        raise ValueError("and nobody understood it")

    async def there() -> None:
        for number in range(2):
            pool.service.workers.submit(name_of_thread, pool.tell, brief=True, batch=BatchJob(together, number, tell))

    pool.service.run(there()).result(PATIENCE_S)
    told = [pool.next() for _ in range(2)]
    assert [str(error) for _, error in told] == ["and nobody understood it"] * 2
    assert [ended.get(timeout=PATIENCE_S) for _ in range(2)] == [fault, fault]


def test_a_brief_job_does_not_overtake_on_the_loop_what_a_thread_does(pool: Pool) -> None:
    gate = Event()
    pool.submit(lambda: gate.wait(PATIENCE_S))
    pool.submit(name_of_thread, brief=True)
    assert pool.next()[0] != LOOP
    gate.set()
    pool.next()


def test_what_a_brief_job_raises_is_told(pool: Pool) -> None:
    fault = ValueError("no")

    def fail() -> None:
        raise fault

    pool.submit(fail, brief=True)
    assert pool.next() == (None, fault)


def test_after_a_slow_disk_brief_jobs_leave_the_loop_alone_for_a_while(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(workers, "perf_counter", lambda: now_s[0])

    def is_slow() -> None:
        now_s[0] += 0.021

    for pause_s in (0.25, 0.5, 1.0):
        pool.submit(is_slow, brief=True)
        pool.next()
        now_s[0] += pause_s - 0.001
        pool.submit(name_of_thread, brief=True)
        assert pool.next() == (THREAD, None)
        now_s[0] += 0.002
    pool.submit(name_of_thread, brief=True)
    assert pool.next() == (LOOP, None)
    now_s[0] += 9.0  # quick for so long that all is forgotten
    pool.submit(is_slow, brief=True)
    pool.next()
    now_s[0] += 0.251
    pool.submit(name_of_thread, brief=True)
    assert pool.next() == (LOOP, None)


def test_a_brief_job_is_done_at_once_while_one_connection_alone_has_such(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(workers, "perf_counter", lambda: now_s)
    done: list[str] = []

    def slowly() -> None:
        nonlocal now_s
        now_s += 0.05
        done.append("slow")

    async def there() -> None:
        nonlocal now_s
        tried, one, two = pool.service.workers.do_alone, object(), object()
        assert tried(one, partial(done.append, "a"))
        assert tried(one, partial(done.append, "b"))
        assert not tried(two, partial(done.append, "another one had some a moment ago"))
        assert not tried(one, partial(done.append, "so did this one"))
        now_s += 0.02
        assert tried(two, partial(done.append, "c"))
        assert tried(two, slowly)
        assert not tried(two, partial(done.append, "the disk is slow"))

    pool.service.run(there()).result(PATIENCE_S)
    assert done == ["a", "b", "c", "slow"]


def test_a_brief_job_is_not_done_at_once_while_others_run(pool: Pool) -> None:
    go = Event()
    pool.submit(lambda: go.wait(PATIENCE_S))

    async def there() -> bool:
        return pool.service.workers.do_alone(object(), go.set)

    assert not pool.service.run(there()).result(PATIENCE_S)
    go.set()
    pool.next()


class ScarceThread(threading.Thread):
    """One that the system gives only now and then."""

    lacking = 0

    def start(self) -> None:
        if ScarceThread.lacking:
            ScarceThread.lacking -= 1
            raise RuntimeError("can't start new thread")
        super().start()


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> type[ScarceThread]:
    monkeypatch.setattr(workers, "Thread", ScarceThread)
    monkeypatch.setattr(ScarceThread, "lacking", 0)
    return ScarceThread


def test_a_job_waits_for_a_thread_that_the_system_does_not_give_at_once(
    scarce: type[ScarceThread], caplog: pytest.LogCaptureFixture
) -> None:
    scarce.lacking = 3
    with pool_of(WorkerSettings()) as pool:
        pool.submit(lambda: "served")
        assert pool.next() == ("served", None)
        assert pool.threads > 0
    assert caplog.text.count("PYJMS-NET-18") == 1


def test_jobs_share_the_threads_that_the_system_gives(scarce: type[ScarceThread]) -> None:
    with pool_of(WorkerSettings()) as pool:
        gate, begun = Event(), Event()

        def wait() -> None:
            begun.set()
            gate.wait(PATIENCE_S)

        pool.submit(wait)
        assert begun.wait(PATIENCE_S)
        scarce.lacking = 10**9
        pool.submit(lambda: "served")
        assert pool.threads == 1
        gate.set()
        assert [pool.next(), pool.next()] == [(None, None), ("served", None)]


def test_a_job_for_which_there_never_is_a_thread_is_refused(scarce: type[ScarceThread]) -> None:
    scarce.lacking = 10**9
    with pool_of(WorkerSettings(patience_s=0.05)) as pool:
        pool.submit(lambda: "served")
        result, error = pool.next()
        assert result is None
        assert isinstance(error, ResourceError)
        assert "no thread: try again later" in error.reason
