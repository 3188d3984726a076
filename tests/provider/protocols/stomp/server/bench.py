"""A broker, its STOMP service, and connections without sockets: engines that are fed and pulled by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from pyjms.spi.envelope import ConnectionId
from pyjms.spi.errors import AccessDeniedError, ProviderError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.broker import EmbeddedBroker, find_broker, stop_broker
from pyjms_provider.protocols.engine import BatchJob, Peer, RemoteJob
from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.server.service import StompService
from pyjms_provider.protocols.stomp.server.settings import StompSettings
from pyjms_provider.security.contracts import (
    AccessPolicy,
    Authenticator,
    Credentials,
    Operation,
    PasswordCredentials,
    Principal,
    Target,
)
from pyjms_provider.serving.hosts import EmbeddedHost
from pyjms_provider.settings import BrokerSettings, read_url
from tests.provider.helpers import HandClock

_T = TypeVar("_T")
_numbers = count(1)


class Doors(Authenticator):
    """Lets in who says ``secret``, and who says nothing."""

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        if credentials is None:
            return Principal(name="anonymous")
        if isinstance(credentials, PasswordCredentials) and credentials.password == "secret":
            return Principal(name=credentials.user_name)
        raise AccessDeniedError("the credentials were refused")


class Rules(AccessPolicy):
    """Allows all but what is listed, and remembers what it was asked."""

    def __init__(self) -> None:
        self.denied: set[tuple[Operation, str]] = set()
        self.asked: list[tuple[str, Operation, Target]] = []

    def check(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str = ""
    ) -> None:
        self.asked.append((principal.name, operation, target))
        if (operation, target.name) in self.denied:
            raise AccessDeniedError(f"{principal.name} may not {operation.value} {target.name}")


class HandConduit:
    """Does the transport's part by hand: jobs are done when `settle` is called."""

    def __init__(self, certificate: bytes | None = None) -> None:
        self.peer = Peer("127.0.0.1:50000", "stomp://127.0.0.1:61613", False, certificate)
        self.wakes = 0
        self.is_awake = False
        """Whether it was woken since the last pull."""
        self.jobs: list[Callable[[], None]] = []
        self.briefs: list[bool] = []
        """Of all jobs, whether they are brief."""
        self.patient: list[bool] = []
        """Of all jobs, whether they may wait for other clients."""
        self.batches: list[tuple[BatchJob, Callable[[], None]]] = []
        """Of those jobs that can be done together with others, how, and what tells that they are done."""
        self.remote: list[Callable[[], None]] = []
        """Of jobs that another process has answered, what does the rest."""
        self.heard_ms = 0.0
        self.is_alone = False
        """Whether brief jobs are done at once."""
        self.takes_pushes = False
        """Whether messages are handed over without a turn: one, until the next pull."""
        self.pushed: list[bytes] = []
        """What was, since it was last pulled."""

    @property
    def is_free(self) -> bool:
        return self.takes_pushes and not self.pushed and not self.is_awake

    def push(self, data: bytes) -> None:
        self.pushed.append(data)

    def do_brief(self, job: Callable[[], None]) -> bool:
        if self.is_alone:
            job()
        return self.is_alone

    def begin(self, job: RemoteJob, done: Callable[[bool], None], *, patient: bool = False) -> bool:
        self.patient.append(patient)

        def tell(error: BaseException | None) -> None:
            def finish() -> None:
                job.ended(error)
                done(True)

            self.remote.append(finish)

        try:
            return job.start(tell)
        except ProviderError as error:
            tell(error)
            return True

    def wake(self) -> None:
        self.wakes += 1
        self.is_awake = True

    def work(
        self,
        job: Callable[[], _T],
        done: Callable[[_T | None, BaseException | None], None],
        *,
        brief: bool = False,
        batch: BatchJob | None = None,
        patient: bool = False,
    ) -> None:
        def run() -> None:
            try:
                result = job()
            except BaseException as error:
                done(None, error)
            else:
                done(result, None)

        self.jobs.append(run)
        self.briefs.append(brief)
        self.patient.append(patient)
        if batch is not None:
            self.batches.append((batch, partial(done, None, None)))


class Client:
    """One connection to the service."""

    def __init__(self, bench: Bench, *, version: str = "1.2", certificate: bytes | None = None) -> None:
        self._clock = bench.clock
        self.transport = HandConduit(certificate)
        self.transport.heard_ms = bench.clock.monotonic_ms()
        self.engine = bench.service.engine(self.transport)
        self.version = Version(version)
        self._decoder = FrameDecoder(version=self.version)
        self.frames: list[Frame] = []
        self.beats = 0

    def log_in(self, **headers: str) -> Frame:
        """Send CONNECT; return what is answered."""
        if self.version is not Version.V1_0:
            headers = {"accept-version": self.version.value, "host": "", **headers}
        return self.ask("CONNECT", b"", **headers)

    def feed(self, data: bytes) -> None:
        self.transport.heard_ms = self._clock.monotonic_ms()
        self.engine.received(data)

    def send(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Send a frame; ``_`` in names of headers stands for ``-``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.feed(encode(Frame(command, named, body), self.version))

    def ask(self, command: str, body: bytes = b"", /, **headers: str) -> Frame:
        """Send a frame and return the first that comes back."""
        self.send(command, body, **headers)
        return self.next()

    def settle(self) -> None:
        """Do all jobs, and take all that is written."""
        while True:
            while self.transport.jobs:
                self.transport.jobs.pop(0)()
            if not self.pull() and not self.transport.jobs:
                return

    def pull(self, size: int = 65536) -> bytes:
        data = b"".join(self.transport.pushed) + bytes(self.engine.pull(size))
        self.transport.pushed.clear()
        self.transport.is_awake = False
        self.frames += [event for event in self._decoder.feed(data) if isinstance(event, Frame)]
        if data and not data.strip(b"\n"):
            self.beats += 1
        return data

    def next(self) -> Frame:
        """Return the next frame that was written."""
        self.settle()
        assert self.frames, "nothing was written"
        return self.frames.pop(0)

    def all(self) -> list[Frame]:
        """Return all frames that were written."""
        self.settle()
        frames, self.frames = self.frames, []
        return frames

    def hang_up(self) -> None:
        self.engine.closed(None)
        self.settle_jobs()

    def settle_jobs(self) -> None:
        while self.transport.jobs:
            self.transport.jobs.pop(0)()


class Bench:
    """One broker and its service."""

    def __init__(self, settings: StompSettings | None = None, broker: BrokerSettings | None = None) -> None:
        self.clock = HandClock()
        self.broker: EmbeddedBroker = find_broker(f"stomp-test-{next(_numbers)}", self.clock, broker)
        self.rules = Rules()
        self.host = EmbeddedHost(self.broker, self.rules)
        self.service = StompService(
            clock=self.clock, authenticator=Doors(), hosts=self, settings=settings or StompSettings()
        )

    def find(self, name: str) -> EmbeddedHost | None:
        return self.host if name != "nowhere" else None

    def connect(self, version: str = "1.2", **headers: str) -> Client:
        client = Client(self, version=version)
        answer = client.log_in(**headers)
        assert answer.command == "CONNECTED", answer
        return client

    def close(self) -> None:
        stop_broker(self.broker.name)


def bench_on(directory: Path, options: str = "") -> Bench:
    """Return a bench whose broker has a store in `directory`, with what an earlier one has left there.

    `options`: more of them, as ``&memory=1MB``.
    """
    return Bench(broker=read_url(ProviderUrl.parse(f"vm://x?store=sqlite:///{directory}/x.db{options}"))[1])
