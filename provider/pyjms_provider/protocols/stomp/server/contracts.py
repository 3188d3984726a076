"""The interfaces between the parts of one STOMP connection: the port's service, the engine, and the handler of its frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.spi.errors import ProviderError
from pyjms_provider.protocols.logins import LoginService
from pyjms_provider.protocols.scheduling import (
    TASK_SIZE,
    Backlog,
    DeliveryScheduler,
    DirectDeliveries,
    SerialExecutor,
)
from pyjms_provider.protocols.stomp.errors import StompError
from pyjms_provider.protocols.stomp.frames import Frame

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.engine import BatchJob, RareLines, RemoteJob, TransportContext
    from pyjms_provider.protocols.hosts import Guard
    from pyjms_provider.protocols.stomp.server.login import Login
    from pyjms_provider.protocols.stomp.server.settings import StompSettings

_DISCONNECT: Final = "DISCONNECT"


@dataclass(slots=True)
class FrameTask:
    """The work of one frame."""

    frame: Frame
    do: Callable[[], None]
    may_wait: bool
    is_brief: bool = False
    """Whether it waits for a local disk at most."""
    messages: int = 1
    """How many messages were read from its frame."""
    batch: BatchJob | None = None
    """How it is done together with the next tasks, and with tasks of other connections."""
    remote: RemoteJob | None = None
    """How another process does it."""
    is_patient: bool = False
    """Whether it may wait for other clients without a limit."""
    joined_bytes: int = 0
    """About how many bytes later frames have added to it."""

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return len(self.frame.body) + self.frame.head_bytes + TASK_SIZE * self.messages + self.joined_bytes


class Service(LoginService, Protocol):
    """The service of one port, shared by its connections."""

    @property
    def clock(self) -> Clock:
        """The clock."""
        ...

    @property
    def settings(self) -> StompSettings:
        """The limits of a connection."""
        ...

    @property
    def direct_deliveries(self) -> DirectDeliveries:
        """The deliveries made during a send, on the loop of all these connections."""
        ...

    @property
    def rare_lines(self) -> RareLines:
        """Limits the log lines that untrusted peers can cause."""
        ...

    def make_handler(
        self, engine: Engine, connection: ProviderConnection, guard: Guard, login: Login
    ) -> ProtocolHandler:
        """Return the handler of a client that has logged in. May wait."""
        ...


class Engine(Protocol):
    """What a handler uses of its engine, on any thread."""

    transport: TransportContext
    service: Service

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended, or ends when all is written."""
        ...

    @property
    def is_free(self) -> bool:
        """Whether `push` may write now, as nothing is pending before it. The connection's thread."""
        ...

    def push(self, data: bytes) -> None:
        """Write frames of STOMP 1.2 now, while the connection `is_free`. The connection's thread."""
        ...

    def emit(self, frame: Frame) -> None:
        """Have a frame written when the wire can take it. Raises `EncodingError`."""
        ...

    def emit_encoded(self, data: bytes) -> None:
        """Have encoded frames of STOMP 1.2 written."""
        ...

    def refuse(self, frame: Frame | None, error: BaseException) -> None:
        """Answer with ERROR, and end the connection."""
        ...

    def fail(self, error: BaseException) -> None:
        """End the connection because of an error in the broker."""
        ...

    def finish(self) -> None:
        """End the connection for the client, when all is written."""
        ...


class FastFrames(Protocol):
    """Reads and does frames of the usual form without a decoder."""

    def take(self, data: bytes) -> bytes:
        """Do the frames at the beginning of `data`, up to the first one of another form; return the rest."""
        ...


class ProtocolHandler(ABC):
    """Does the frames of one connection, after login. `take`, `run` and `pull` are called on the connection's thread."""

    def __init__(self, engine: Engine, connection: ProviderConnection, guard: Guard) -> None:
        self.engine = engine
        self.connection = connection
        self.guard = guard
        self.scheduler = DeliveryScheduler(engine.transport.wake)
        self.backlog = Backlog()
        """The tasks that wait for their turn."""
        self.fast_frames: FastFrames | None = None
        """Does frames of the usual form without a decoder, after the login; None: there is no such path."""
        self.is_over = False
        self._lock = Lock()
        self._leaving = 0
        """How many executors have not reached DISCONNECT yet."""

    @abstractmethod
    def greeting(self) -> Mapping[str, str]:
        """Return the headers that CONNECTED has in addition to the usual ones."""

    @abstractmethod
    def take(self, frame: Frame) -> None:
        """Do a frame, now or in its turn."""

    @abstractmethod
    def run(self) -> None:
        """Run the tasks that wait for their turn."""

    def pull(self, size: int, parts: list[bytes]) -> int:
        """Add messages of about `size` bytes to `parts`; return how many bytes."""
        return self.scheduler.pull(size, parts)

    def end(self) -> None:
        """Stop all work: the connection is over. May be repeated."""
        self.is_over = True

    def perform(self, task: FrameTask) -> None:
        """Do a frame's task, and answer: RECEIPT if it asks for one, or ERROR."""
        # When the last executor reaches DISCONNECT, all have: only that one answers.
        if self.is_over or (task.frame.command == _DISCONNECT and not self._leaves()):
            return
        try:
            task.do()
        except (ProviderError, StompError) as error:
            self.refuse(task.frame, error)
        else:
            receipt = task.frame.receipt
            if receipt is not None:
                self.confirm(task.frame, receipt)
        if task.frame.command == _DISCONNECT:
            self.engine.finish()

    def leave(
        self, frame: Frame, executors: Sequence[SerialExecutor[FrameTask]], do: Callable[[], None], *, may_wait: bool
    ) -> None:
        """Do DISCONNECT when all earlier frames have been done, in all executors; then the connection is over."""
        self._leaving = len(executors)
        for executor in executors:
            executor.add(FrameTask(frame, do, may_wait))

    def _leaves(self) -> bool:
        """Return whether the last executor has reached DISCONNECT. Any thread."""
        # Executors may reach DISCONNECT on several workers at once.
        with self._lock:
            self._leaving -= 1
            return not self._leaving

    def confirm(self, frame: Frame, receipt: str) -> None:
        """Answer a frame that has been done."""
        self.engine.emit(Frame("RECEIPT", {"receipt-id": receipt}))

    def refuse(self, frame: Frame, error: ProviderError | StompError) -> None:
        """Answer a frame with ERROR. By default this ends the connection."""
        self.engine.refuse(frame, error)


class NativeConnection(Protocol):
    """What the sessions and consumers of a pyjms client use of their connection's handler."""

    engine: Engine
    guard: Guard
    scheduler: DeliveryScheduler
    is_over: bool
    is_packed: bool
    """Whether messages go both ways in the packed form of stores, several in a frame."""
    delivery_numbers: count[int]
    """The numbers of future deliveries."""

    def answer(self, receipt: str, headers: Mapping[str, str]) -> None:
        """Answer a frame whose answer had to wait for more than its execution."""
        ...

    def confirm(self, frame: Frame, receipt: str) -> None:
        """Answer a frame that has been done."""
        ...

    def refuse(self, frame: Frame, error: ProviderError | StompError) -> None:
        """Answer a frame with ERROR; the connection goes on."""
        ...
