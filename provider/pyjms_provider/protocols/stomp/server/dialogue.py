"""What frames mean after login: the contract of the two dialogues, that with plain clients and that with pyjms clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ProviderError
from pyjms_provider.protocols.stomp.errors import StompError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.server.lane import Act, Load
from pyjms_provider.protocols.stomp.server.turns import Turns

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.stomp.server.engine import StompServerEngine
    from pyjms_provider.protocols.stomp.server.hosts import Guard
    from pyjms_provider.protocols.stomp.server.lane import Lane
    from pyjms_provider.protocols.stomp.server.usual_frames import UsualFrames

__all__ = ["Dialogue"]

_DISCONNECT: Final = "DISCONNECT"


class Dialogue(ABC):
    """What is said on one connection after login. `take`, `run` and `pull` are called by the connection's thread."""

    def __init__(self, engine: StompServerEngine, connection: ProviderConnection, guard: Guard) -> None:
        self.engine = engine
        self.connection = connection
        self.guard = guard
        self.turns = Turns(engine.conduit.wake)
        self.load = Load()
        """What waits for its turn."""
        self.usual_frames: UsualFrames | None = None
        """What does frames of the usual form without a decoder, once the login is done; None: nothing does."""
        self.is_over = False
        self._lock = Lock()
        self._leaving = 0
        """Lanes that have not come to DISCONNECT yet."""

    @abstractmethod
    def greeting(self) -> Mapping[str, str]:
        """Return what CONNECTED says beside what it always does."""

    @abstractmethod
    def take(self, frame: Frame) -> None:
        """Take a frame: what it asks for is done now, or in its turn."""

    @abstractmethod
    def run(self) -> None:
        """Go on with what waits for its turn."""

    def pull(self, size: int, parts: list[bytes]) -> int:
        """Add messages of about `size` bytes; return how many bytes."""
        return self.turns.pull(size, parts)

    def end(self) -> None:
        """Hear that the connection is over: nothing more is done for it. May be repeated."""
        self.is_over = True

    def perform(self, act: Act) -> None:
        """Do what a frame asks for, and answer: RECEIPT if it wants one, or ERROR."""
        if self.is_over or (act.frame.command == _DISCONNECT and not self._leaves()):
            return
        try:
            act.do()
        except (ProviderError, StompError) as error:
            self.refuse(act.frame, error)
        else:
            receipt = act.frame.receipt
            if receipt is not None:
                self.confirm(act.frame, receipt)
        if act.frame.command == _DISCONNECT:
            self.engine.finish()

    def leave(self, frame: Frame, lanes: Sequence[Lane], do: Callable[[], None], *, may_wait: bool) -> None:
        """Do DISCONNECT as soon as all that came before it has been done, in all lanes; then the connection is over."""
        self._leaving = len(lanes)
        for lane in lanes:
            lane.add(Act(frame, do, may_wait))

    def _leaves(self) -> bool:
        """Say whether the last lane has come to DISCONNECT. Any thread."""
        with self._lock:
            self._leaving -= 1
            return not self._leaving

    def confirm(self, frame: Frame, receipt: str) -> None:
        """Answer a frame that has been done."""
        self.engine.emit(Frame("RECEIPT", {"receipt-id": receipt}))

    def refuse(self, frame: Frame, error: ProviderError | StompError) -> None:
        """Answer a frame with ERROR. As given here, the connection is over with it."""
        self.engine.refuse(frame, error)
