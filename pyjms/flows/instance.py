"""One running workflow as a state machine: what has happened, and what is to be asked for next. Pure.

Forward, one step after the other; when a step is refused, backward, compensating what was done in reverse order; when that
fails, parked for a person. What was asked for carries a key, and the answer brings it back: an answer with another key than
the one that is waited for comes too late, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from pyjms.flows.definition import Flow, Step

# Twenty doublings of a second are twelve days; without a bound, due_ms would outgrow its column of 64 bits.
_MOST_DOUBLINGS = 20
# The story is a part of the row that each change writes, so it must not grow without bound.
_NOTES_KEPT = 200
_HEARD_KEPT = 50
"""No fewer than the events that an engine commits together, all of which may come again."""


class Status(Enum):
    """Where an instance stands."""

    RUNNING = "running"
    COMPENSATING = "compensating"
    PARKED = "parked"
    COMPLETED = "completed"
    COMPENSATED = "compensated"

    @property
    def is_final(self) -> bool:
        """Whether nothing will happen any more."""
        return self in (Status.COMPLETED, Status.COMPENSATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One line of an instance's story."""

    time_ms: int
    what: str
    step: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance. `position` is the index of the step that is asked for, or compensated."""

    id: str
    flow: str
    version: int
    status: Status
    position: int
    attempt: int
    """1 for the first time that the step, or its compensation, is asked for."""
    data: Mapping[str, Any]
    """What the steps know of each other: the input, with what each step returned; JSON's values."""
    due_ms: int
    """When the answer is overdue; 0: nothing is waited for."""
    revision: int
    """Grows with each change."""
    reason: str = ""
    """Why it goes backward, or was parked."""
    was_compensating: bool = False
    """Of a parked instance: which way it went."""
    story: tuple[Note, ...] = field(default=())
    heard: tuple[str, ...] = field(default=())
    """The ids of the last events of persons that counted: one that comes again would count for another step."""

    def state(self, flow: Flow) -> str:
        """Return the consistent state that others may see; "" once an instance goes backward."""
        if self.status is Status.COMPLETED:
            return flow.states()[-1]
        # An instance that goes back has no consistent state to show: some of its steps are undone, and others are not.
        is_backward = self.status in (Status.COMPENSATING, Status.COMPENSATED) or self.was_compensating
        return "" if is_backward else flow.states()[self.position]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is to be sent: a step's work or its compensation."""

    queue: str
    instance: str
    step: str
    is_compensation: bool
    attempt: int
    data: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Names the work, whichever attempt this is: it is done once."""
        return f"{self.instance}:{self.step}{':undo' if self.is_compensation else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A step's work, or its compensation, has ended."""

    key: str
    is_refused: bool = False
    reason: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOut:
    """What was waited for is overdue. `revision` is that of the instance when this was seen."""

    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A person says: try again; `skip`: go on as if the step, or its compensation, had been done by hand."""

    skip: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """A person says: stop here. `compensate`: go backward instead."""

    reason: str
    compensate: bool = False


Event = Answer | TimeOut | Retry | Suspend


def begin(flow: Flow, instance_id: str, data: Mapping[str, Any], now_ms: int) -> tuple[Instance, Ask]:
    """Return a new instance with the first thing to ask for."""
    instance = Instance(
        id=instance_id,
        flow=flow.name,
        version=flow.version,
        status=Status.RUNNING,
        position=0,
        attempt=1,
        data=dict(data),
        due_ms=0,
        revision=0,
        story=(Note(time_ms=now_ms, what="begun"),),
    )
    return _asking(flow, instance, now_ms)


def advance(flow: Flow, instance: Instance, event: Event, now_ms: int) -> tuple[Instance, Ask | None]:
    """Return what `event` makes of `instance`, and what to ask for then. An event that comes too late changes nothing."""
    # An event that does not fit the status is late or repeated; it is no error, as events may come twice.
    handle = _TABLE.get((instance.status, type(event)))
    return (instance, None) if handle is None else handle(flow, instance, event, now_ms)


def obey_person(
    flow: Flow, instance: Instance, event: Retry | Suspend, event_id: str, now_ms: int
) -> tuple[Instance, Ask | None]:
    """Do as `advance`, once for each id; "": the event has none."""
    # A person's event names no step, so that a repeated one would count for the next step (decision 0920).
    if event_id and event_id in instance.heard:
        return instance, None
    following, ask = advance(flow, instance, event, now_ms)
    # Only events that counted are kept: one that changed nothing may change something when it is sent again later.
    if event_id and following is not instance:
        following = replace(following, heard=(*instance.heard[1 - _HEARD_KEPT :], event_id))
    return following, ask


def asked(flow: Flow, instance: Instance) -> Ask | None:
    """Return what the instance waits for, as it was asked."""
    if instance.status not in (Status.RUNNING, Status.COMPENSATING):
        return None
    step = flow.steps[instance.position]
    backward = instance.status is Status.COMPENSATING
    queue = step.compensation if backward else step.queue
    return Ask(
        queue=queue or "",
        instance=instance.id,
        step=step.name,
        is_compensation=backward,
        attempt=instance.attempt,
        data=instance.data,
    )


# Each of these returns the next instance and what to ask for.


def _done(flow: Flow, instance: Instance, event: Answer, now_ms: int) -> tuple[Instance, Ask | None]:
    # The answer to an earlier attempt, or to a step that is done: the key tells them apart, whichever attempt it
    # answers.
    if not _is_waited_for(flow, instance, event):
        return instance, None
    step = flow.steps[instance.position]
    if event.is_refused:
        # A refused step has done nothing, so the step before it is the first to be compensated.
        told = _told(instance, now_ms, "refused", step, event.reason)
        return _backward(
            flow, replace(told, reason=f"{step.name} was refused: {event.reason}"), instance.position - 1, now_ms
        )
    told = _told(instance, now_ms, "done", step)
    return _forward(flow, replace(told, data=dict(instance.data) | dict(event.data)), now_ms)


def _undone(flow: Flow, instance: Instance, event: Answer, now_ms: int) -> tuple[Instance, Ask | None]:
    if not _is_waited_for(flow, instance, event):
        return instance, None
    step = flow.steps[instance.position]
    if event.is_refused:
        told = _told(instance, now_ms, "compensation refused", step, event.reason)
        return _parked(told, f"the compensation of {step.name} was refused: {event.reason}", now_ms), None
    told = replace(_told(instance, now_ms, "compensated", step), data=dict(instance.data) | dict(event.data))
    return _backward(flow, told, instance.position - 1, now_ms)


def _overdue(flow: Flow, instance: Instance, event: TimeOut, now_ms: int) -> tuple[Instance, Ask | None]:
    # The answer may have come between the query for overdue instances and this event.
    if event.revision != instance.revision or not 0 < instance.due_ms <= now_ms:
        return instance, None
    step = flow.steps[instance.position]
    told = _told(instance, now_ms, "overdue", step, f"attempt {instance.attempt}")
    if instance.attempt <= step.retries:
        return _asking(flow, replace(told, attempt=instance.attempt + 1), now_ms)
    what = f"{'the compensation of ' if instance.status is Status.COMPENSATING else ''}{step.name} was not answered"
    # A compensation is never given up for another one: only a person can say what to do then.
    if instance.status is Status.RUNNING and step.on_timeout == "compensate":
        # It may have been done, or be done yet: its own compensation is asked for too, and finds out.
        return _backward(flow, replace(told, reason=what), instance.position, now_ms)
    return _parked(told, f"{what} after {instance.attempt} attempts", now_ms), None


def _again(flow: Flow, instance: Instance, event: Retry, now_ms: int) -> tuple[Instance, Ask | None]:
    step = flow.steps[instance.position]
    told = _told(
        instance, now_ms, "skipped by a person" if event.skip else "tried again by a person", step, event.reason
    )
    status = Status.COMPENSATING if instance.was_compensating else Status.RUNNING
    # The attempts begin again: a person who has repaired the cause wants all of them.
    freed = replace(told, status=status, was_compensating=False, attempt=1)
    if not event.skip:
        return _asking(flow, freed, now_ms)
    if status is Status.RUNNING:
        return _forward(flow, freed, now_ms)
    return _backward(flow, freed, instance.position - 1, now_ms)


def _stop(flow: Flow, instance: Instance, event: Suspend, now_ms: int) -> tuple[Instance, Ask | None]:
    if not event.compensate:
        return _parked(_told(instance, now_ms, "parked by a person", reason=event.reason), event.reason, now_ms), None
    # It goes back already, or was parked while it did.
    if instance.status is Status.COMPENSATING or instance.was_compensating:
        return instance, None
    told = _told(instance, now_ms, "cancelled by a person", reason=event.reason)
    # With the present step, which may have been done though its answer has not come: its compensation finds out.
    return _backward(flow, replace(told, reason=event.reason, was_compensating=False), instance.position, now_ms)


_TABLE: Mapping[tuple[Status, type], Callable[..., tuple[Instance, Ask | None]]] = {
    (Status.RUNNING, Answer): _done,
    (Status.RUNNING, TimeOut): _overdue,
    (Status.RUNNING, Suspend): _stop,
    (Status.COMPENSATING, Answer): _undone,
    (Status.COMPENSATING, TimeOut): _overdue,
    (Status.COMPENSATING, Suspend): _stop,
    (Status.PARKED, Retry): _again,
    (Status.PARKED, Suspend): _stop,
}
"""All that can happen; what is not here changes nothing."""


def _is_waited_for(flow: Flow, instance: Instance, event: Answer) -> bool:
    waited = asked(flow, instance)
    return waited is not None and waited.key == event.key


def _forward(flow: Flow, instance: Instance, now_ms: int) -> tuple[Instance, Ask | None]:
    if instance.position + 1 == len(flow.steps):
        return _told(replace(instance, status=Status.COMPLETED, due_ms=0), now_ms, "completed"), None
    return _asking(flow, replace(instance, position=instance.position + 1, attempt=1), now_ms)


def _backward(flow: Flow, instance: Instance, position: int, now_ms: int) -> tuple[Instance, Ask | None]:
    """Ask for the compensation of the last step at or before `position` that has one."""
    # Steps without a compensation have nothing to undo, such as a question.
    while position >= 0 and flow.steps[position].compensation is None:
        position -= 1
    if position < 0:
        ended = replace(instance, status=Status.COMPENSATED, position=0, due_ms=0)
        return _told(ended, now_ms, "all is compensated", reason=instance.reason), None
    return _asking(flow, replace(instance, status=Status.COMPENSATING, position=position, attempt=1), now_ms)


def _parked(instance: Instance, reason: str, now_ms: int) -> Instance:
    backward = instance.status is Status.COMPENSATING or instance.was_compensating
    parked = replace(instance, status=Status.PARKED, due_ms=0, reason=reason, was_compensating=backward)
    return _told(parked, now_ms, "parked", reason=reason)


def _asking(flow: Flow, instance: Instance, now_ms: int) -> tuple[Instance, Ask]:
    step = flow.steps[instance.position]
    patience_s = step.timeout_s
    if instance.attempt > 1:
        patience_s += step.backoff_s * 2 ** min(instance.attempt - 2, _MOST_DOUBLINGS)
    # At least a millisecond: 0 means that nothing is waited for.
    waiting = replace(instance, due_ms=now_ms + max(1, round(patience_s * 1000)), revision=instance.revision + 1)
    ask = asked(flow, waiting)
    assert ask is not None
    return waiting, ask


def _told(instance: Instance, now_ms: int, what: str, step: Step | None = None, reason: str = "") -> Instance:
    note = Note(time_ms=now_ms, what=what, step=step.name if step else "", reason=reason)
    return replace(instance, story=(*instance.story[1 - _NOTES_KEPT :], note), revision=instance.revision + 1)
