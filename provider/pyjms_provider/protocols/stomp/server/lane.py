"""Acts that are done one after the other, on the connection's thread or, where they may wait, on another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyjms_provider.protocols.engine import Conduit, Joint
    from pyjms_provider.protocols.stomp.frames import Frame

__all__ = ["Act", "Lane", "Load"]

_RUN_MAX: Final = 64  # acts of one job, so that others get their turn
_ACT_SIZE: Final = 512  # bytes of what is not text
_BRIEF_MAX: Final = 2  # waits of a job that is brief as a whole


@dataclass(slots=True)
class Act:
    """What one frame asks for."""

    frame: Frame
    do: Callable[[], None]
    may_wait: bool
    is_brief: bool = False
    """Whether it waits for a local disk at most."""
    messages: int = 1
    """How many messages it has read from its frame."""
    joint: Joint | None = None
    """How it is done together with those of other connections."""
    is_patient: bool = False
    """Whether it may wait for what other clients do, for as long as they please."""
    joined_bytes: int = 0
    """About how many bytes came to it from later frames."""

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return len(self.frame.body) + self.frame.head_bytes + _ACT_SIZE * self.messages + self.joined_bytes


@dataclass(slots=True)
class Load:
    """What waits in all lanes of one connection. Its thread alone changes it."""

    has_waiting: bool = False
    """Whether there may be acts for which `Lane.run` was not called."""
    waiting_bytes: int = 0
    """About how much memory the acts take that have not been done."""


class Lane:
    """One order of acts."""

    __slots__ = ("_acts", "_conduit", "_fail", "_is_busy", "_load", "_perform", "has_waiting")

    def __init__(
        self, conduit: Conduit, perform: Callable[[Act], None], fail: Callable[[BaseException], None], load: Load
    ) -> None:
        """`perform` does an act and answers what it refuses itself. What it raises is a fault of ours: the transport's affair,
        or that of `fail` where it was done on another thread. `load` is what all lanes of the connection share.
        """
        self._conduit = conduit
        self._perform = perform
        self._fail = fail
        self._load = load
        self._acts: deque[Act] = deque()
        self._is_busy = False
        self.has_waiting = False
        """Whether there may be acts for which `run` was not called."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._is_busy and not self._acts

    @property
    def last(self) -> Act | None:
        """What would be done last of all that waits."""
        return self._acts[-1] if self._acts else None

    def add(self, act: Act) -> None:
        """Do `act` now if it is its turn and it cannot wait; else with `run`."""
        if not act.may_wait and self.is_idle:
            self._perform(act)
        else:
            self._acts.append(act)
            self.has_waiting = self._load.has_waiting = True
            self._load.waiting_bytes += act.size

    def grow(self, act: Act, size: int) -> None:
        """Hear that `act`, which still waits, holds so many bytes more, of a frame that joined it."""
        act.joined_bytes += size
        self._load.waiting_bytes += size

    def run(self) -> None:
        """Go on with what waits, unless a job does so already. A job takes all acts that have come, up to a limit.

        What could not wait when it came may do so by now: its queue has filled up, say. So a job does that, too.
        """
        acts = self._acts
        if not self._is_busy:
            self.has_waiting = len(acts) > _RUN_MAX
        if acts and not self._is_busy:
            run = [acts.popleft() for _ in range(min(_RUN_MAX, len(acts)))]
            self._is_busy = True
            waiting = [act for act in run if act.may_wait]
            is_brief = len(waiting) <= _BRIEF_MAX and all(act.is_brief for act in waiting)
            done = partial(self._done, sum([act.size for act in run]))
            joint = run[0].joint if is_brief and len(run) == 1 else None
            is_patient = any(act.is_patient for act in run)
            self._conduit.work(partial(self._do_all, run), done, brief=is_brief, joint=joint, patient=is_patient)

    def clear(self) -> None:
        """Forget what waits."""
        self._acts.clear()

    def _do_all(self, run: list[Act]) -> None:
        for act in run:
            self._perform(act)

    def _done(self, size: int, _: None, error: BaseException | None) -> None:
        self._is_busy = False
        self._load.waiting_bytes -= size
        if error is not None:
            self._fail(error)
        self.run()
        self._conduit.wake()
