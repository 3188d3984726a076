"""What waits in a lane is counted, also what joins an act that waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pyjms.spi.provider import ProviderSession
from pyjms_provider.protocols.engine import Conduit
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.server.lane import Act, Lane, Load
from pyjms_provider.protocols.stomp.server.profile_sessions import ServedSession


class Jobs:
    """A conduit whose jobs are done when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = []

    def work(self, job: Callable[[], Any], done: Callable[[Any, Any], None], **_: object) -> None:
        self.jobs.append((job, done))

    def wake(self) -> None:
        pass

    def finish(self) -> None:
        job, done = self.jobs.pop(0)
        done(job(), None)


def act(do: Callable[[], None] = lambda: None) -> Act:
    return Act(Frame("ACK", {}), do, may_wait=True)


def test_acknowledgements_that_join_one_that_waits_are_counted_until_it_is_done() -> None:
    jobs, load = Jobs(), Load()
    lane = Lane(cast("Conduit", jobs), lambda act: act.do(), lambda error: None, load)
    session = ServedSession("a", cast("ProviderSession", None), lane, transacted=False)
    lane.add(act())
    lane.run()  # so that the next one waits
    late, numbers = act(), [range(1, 2)]
    session.late = late, numbers
    lane.add(late)
    before = load.waiting_bytes
    for first in range(2, 2002, 2):
        assert session.joins((range(first, first + 1),))
    assert len(numbers) == 1001
    assert load.waiting_bytes - before >= 1000 * 48, "a range alone has so many"
    jobs.finish()
    lane.run()
    assert not session.joins((range(2003, 2004),)), "it is being done"
    jobs.finish()
    assert load.waiting_bytes == 0
