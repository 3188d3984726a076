"""Two members of a cluster as an operator runs them, and clients of both that work while something fails."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

from pyjms import ConnectionFactory, JMSRuntimeException, Message
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import ProviderError
from pyjms_provider.cluster.placement import Placement
from pyjms_provider.commands.rest_client import RestClient
from tests.provider.commands.served import PATIENCE_S
from tests.provider.postgresql import PostgresqlServer
from tests.system.cluster.site import SHARDS, Member, Settings

LEASE_MS: Final = 2_000
NAMES: Final = ("left", "right")
_STEP_S: Final = 0.05
_RECEIVE_MS: Final = 500


def wait_until(is_so: Callable[[], bool], told: Callable[[], object]) -> None:
    """Return when a condition holds, which other processes bring about; `told` describes what there is instead."""
    pause = Event()
    for _ in range(int(PATIENCE_S / _STEP_S)):
        if is_so():
            return
        pause.wait(_STEP_S)
    raise AssertionError(f"it has not come about: {told()}")


class Pair:
    """A cluster of two members over one database, with proxies before their link ports and before PostgreSQL."""

    def __init__(self, folder: Path, server: PostgresqlServer, database: str) -> None:
        self.server = server
        self._ends = ExitStack()
        url = f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/{database}"
        self.members = {name: Member(name, folder, url, Settings(lease_ms=LEASE_MS)) for name in NAMES}
        for each in self.members.values():
            self._ends.callback(each.end)
        try:
            for each in self.members.values():
                each.launch()
            for each in self.members.values():
                each.await_start()
            self.await_leaders(*NAMES)
        except BaseException:
            self._ends.close()
            raise

    def close(self) -> None:
        """End both members, in whatever state."""
        self._ends.close()

    def status(self, name: str) -> dict[str, Any]:
        """Return the state of the cluster, as a member tells operators."""
        with RestClient(self.members[name].http) as client:
            operation = client.category("virtual_host").operations["cluster_status"]
            found: dict[str, Any] = client.call("virtual_host", ("shop", "shop"), operation, {}, lambda *_: None)
        return found

    def led(self, by: str) -> Counter[str]:
        """Return how many shards each member leads, as one of them tells; none are counted if it does not tell."""
        with suppress(ProviderError):
            return Counter(each["leader"] for each in self.status(by)["shards"] if each["leader"] is not None)
        return Counter()

    def await_leaders(self, *names: str) -> None:
        """Return when these members lead all shards, in equal parts, and all of them know that."""
        wanted = Counter({name: SHARDS // len(names) for name in names})
        for name in names:
            wait_until(lambda name=name: self.led(name) == wanted, self.ends_of_logs)  # type: ignore[misc]

    def readiness(self, name: str) -> int:
        """Ask as a load balancer does; return the status of the answer."""
        try:
            with urlopen(f"{self.members[name].http}/health/ready", timeout=PATIENCE_S) as answer:
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code

    def await_readiness(self, name: str, status: int) -> None:
        wait_until(lambda: self.readiness(name) == status, self.ends_of_logs)

    def await_log(self, name: str, text: str) -> None:
        wait_until(lambda: text in self.members[name].logs(), self.ends_of_logs)

    def ends_of_logs(self) -> str:
        return "\n".join(f"--- {each.name}\n{each.logs()[-5_000:]}" for each in self.members.values())

    def queue_of(self, name: str, word: str) -> str:
        """Return the name of a queue, with that word in it, whose shard a member leads now."""
        shards = {each["number"] for each in self.status(name)["shards"] if each["leader"] == name}
        names = (f"{word}-{name}-{number}" for number in range(1_000))
        return next(each for each in names if Placement(SHARDS).shard_of(AddressKind.QUEUE, each) in shards)


def number_of(message: Message) -> int:
    """Return the number of a message of a flow."""
    found: int = json.loads(str(message.get_body(str)))[0]
    return found


class Flow:
    """A client of a member that sends messages to a queue, one after the other, and perhaps one that receives them."""

    def __init__(self, member: Member, queue: str, *, size: int = 0, receives: bool = True) -> None:
        self.queue = queue
        self._url = f"stomp://127.0.0.1:{member.ports['stomp']}"
        self._filler = "x" * size
        self._lock = Lock()
        self._is_over = Event()
        self.confirmed: list[int] = []
        self.doubtful: set[int] = set()
        self.received: Counter[int] = Counter()
        self.flagged: set[int] = set()
        self.errors: Counter[tuple[str | None, str]] = Counter()
        acts = [self._send, *([self._receive] if receives else [])]
        self._threads = [Thread(target=act, name=f"{member.name} {queue}", daemon=True) for act in acts]
        for each in self._threads:
            each.start()

    def _send(self) -> None:
        number = 0
        with ConnectionFactory(self._url).create_context() as context:
            producer, queue = context.create_producer(), context.create_queue(self.queue)
            while not self._is_over.is_set():
                try:
                    producer.send(queue, json.dumps([number, self._filler]))
                except JMSRuntimeException as error:
                    with self._lock:
                        self.errors[error.error_code, str(error)] += 1
                    if error.error_code == "PYJMS-IN-DOUBT":
                        self.doubtful.add(number)
                        number += 1
                    # What was refused is sent again by the same number: it must come once.
                    self._is_over.wait(_STEP_S)
                    continue
                with self._lock:
                    self.confirmed.append(number)
                number += 1
                self._is_over.wait(0.005)

    def _receive(self) -> None:
        with ConnectionFactory(self._url).create_context() as context:
            consumer = context.create_consumer(context.create_queue(self.queue))
            while self._threads[0].is_alive() or not self.has_all():
                try:
                    message = consumer.receive(_RECEIVE_MS)
                except JMSRuntimeException as error:  # its acknowledgement was refused: it comes again
                    with self._lock:
                        self.errors[error.error_code, str(error)] += 1
                    self._is_over.wait(_STEP_S)
                    continue
                if message is not None:
                    number = number_of(message)
                    with self._lock:
                        self.received[number] += 1
                        if message.jms_redelivered:
                            self.flagged.add(number)

    def has_all(self) -> bool:
        """Whether all that was confirmed so far was received."""
        with self._lock:
            return set(self.confirmed) <= self.received.keys()

    def told(self) -> str:
        """Describe what it has done."""
        return f"{self.queue}: {len(self.confirmed)} sent, {len(self.received)} received, {self.errors}"

    def await_more(self, many: int = 20) -> None:
        """Return when so many more were confirmed, and received if it receives."""
        sent, received, receives = len(self.confirmed), len(self.received), len(self._threads) > 1
        wait_until(
            lambda: len(self.confirmed) >= sent + many and (len(self.received) >= received + many or not receives),
            self.told,
        )

    def stop(self) -> None:
        """Begin to end. May be repeated."""
        self._is_over.set()

    def receive_rest(self) -> None:
        """Receive what is there, after the end of a flow that has received nothing."""
        self._receive()

    def end(self) -> None:
        """Stop sending, and receive what is left."""
        self.stop()
        for each in self._threads:
            each.join(PATIENCE_S)
            assert not each.is_alive(), self.told()

    def judge(self) -> None:
        """Nothing that was confirmed is lost, what was refused or confirmed came once, and again at most with the flag."""
        assert not set(self.confirmed) - self.received.keys(), f"lost: {self.told()}"
        assert self.received.keys() <= {*self.confirmed, *self.doubtful}, f"never sent: {self.told()}"
        again = {number for number, times in self.received.items() if times > 1}
        assert again <= self.flagged, f"doubled: {sorted(again - self.flagged)[:10]}, {self.told()}"


@contextmanager
def flowing(pair: Pair, word: str) -> Iterator[dict[tuple[str, str], Flow]]:
    """Have clients of each member send to, and receive from, queues of each: by the names of their member and of the leader.

    `word` is in the names of the queues. They are judged at the end.
    """
    flows = {
        (of, leader): Flow(member, pair.queue_of(leader, word=f"{word}-{of}"))
        for of, member in pair.members.items()
        for leader in NAMES
    }
    yield flows
    for each in flows.values():
        each.end()
    for each in flows.values():
        each.judge()
