"""One running workflow as a state machine: its history, and the next request. Pure.

Forward, one step after the other; when a step is refused, backward, compensating the done steps in reverse order; when
that fails, parked for an operator. A request carries a key, and the answer returns it: an answer with another key than
the awaited one is late, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from pyjms.flows.definition import Flow, Step

# Twenty doublings of a second are twelve days; without a bound, due_ms would outgrow its column of 64 bits.
_MOST_DOUBLINGS = 20
# The history is a part of the row that each change writes, so it must not grow without bound.
_NOTES_KEPT = 200
_HEARD_KEPT = 50
"""At least the number of events that an engine commits together, all of which may be redelivered."""


class Status(Enum):
    """The status of an instance."""

    RUNNING = "running"
    COMPENSATING = "compensating"
    PARKED = "parked"
    COMPLETED = "completed"
    COMPENSATED = "compensated"

    @property
    def is_final(self) -> bool:
        """Whether the instance has ended."""
        return self in (Status.COMPLETED, Status.COMPENSATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One line of an instance's history."""

    time_ms: int
    what: str
    step: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance. `position` is the index of the step that is requested or compensated."""

    id: str
    flow: str
    version: int
    status: Status
    position: int
    attempt: int
    """1 for the first request of the step, or of its compensation."""
    data: Mapping[str, Any]
    """The data that steps share: the input, with the result of each step; JSON's values."""
    due_ms: int
    """When the answer is overdue; 0: no answer is awaited."""
    revision: int
    """Grows with each change."""
    reason: str = ""
    """Why it goes backward, or was parked."""
    was_compensating: bool = False
    """Of a parked instance: whether it went backward."""
    story: tuple[Note, ...] = field(default=())
    heard: tuple[str, ...] = field(default=())
    """The ids of the last commands of operators that took effect: a repeated one would count for another step."""

    def state(self, flow: Flow) -> str:
        """Return the consistent state that others may see; "" once an instance goes backward."""
        if self.status is Status.COMPLETED:
            return flow.states()[-1]
        # An instance that goes back has no consistent state: some of its steps are undone, and others are not.
        is_backward = self.status in (Status.COMPENSATING, Status.COMPENSATED) or self.was_compensating
        return "" if is_backward else flow.states()[self.position]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request for a step's work or its compensation."""

    queue: str
    instance: str
    step: str
    is_compensation: bool
    attempt: int
    data: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Identifies the work, at every attempt: it is done once."""
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
    """The awaited answer is overdue. `revision` is the instance's at that time."""

    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """An operator's command to retry; `skip`: continue as if the step, or its compensation, had been done by hand."""

    skip: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """An operator's command to stop. `compensate`: go backward instead."""

    reason: str
    compensate: bool = False


Event = Answer | TimeOut | Retry | Suspend


def begin(flow: Flow, instance_id: str, data: Mapping[str, Any], now_ms: int) -> tuple[Instance, Ask]:
    """Return a new instance with its first request."""
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
    return _requesting(flow, instance, now_ms)


def advance(flow: Flow, instance: Instance, event: Event, now_ms: int) -> tuple[Instance, Ask | None]:
    """Return the state of `instance` after `event`, and the next request. A late event changes nothing."""
    # An event that does not fit the status is late or repeated; it is no error, as events may come twice.
    handle = _TABLE.get((instance.status, type(event)))
    return (instance, None) if handle is None else handle(flow, instance, event, now_ms)


def apply_command(
    flow: Flow, instance: Instance, event: Retry | Suspend, event_id: str, now_ms: int
) -> tuple[Instance, Ask | None]:
    """Do as `advance`, once for each id; "": the event has none."""
    # An operator's command names no step, so a repeated one would count for the next step (decision 0920).
    if event_id and event_id in instance.heard:
        return instance, None
    following, ask = advance(flow, instance, event, now_ms)
    # Only commands that took effect are stored: one that changed nothing may change something when it is sent again
    # later.
    if event_id and following is not instance:
        following = replace(following, heard=(*instance.heard[1 - _HEARD_KEPT :], event_id))
    return following, ask


def asked(flow: Flow, instance: Instance) -> Ask | None:
    """Return the request that the instance awaits, as it was sent."""
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


# Each of these returns the next instance and the next request.


def _done(flow: Flow, instance: Instance, event: Answer, now_ms: int) -> tuple[Instance, Ask | None]:
    # The answer to an earlier attempt, or to a step that is done: the key identifies them, whichever attempt it
    # answers.
    if not _is_waited_for(flow, instance, event):
        return instance, None
    step = flow.steps[instance.position]
    if event.is_refused:
        # A refused step has done nothing, so the step before it is the first to be compensated.
        told = _with_note(instance, now_ms, "refused", step, event.reason)
        return _backward(
            flow, replace(told, reason=f"{step.name} was refused: {event.reason}"), instance.position - 1, now_ms
        )
    told = _with_note(instance, now_ms, "done", step)
    return _forward(flow, replace(told, data=dict(instance.data) | dict(event.data)), now_ms)


def _undone(flow: Flow, instance: Instance, event: Answer, now_ms: int) -> tuple[Instance, Ask | None]:
    if not _is_waited_for(flow, instance, event):
        return instance, None
    step = flow.steps[instance.position]
    if event.is_refused:
        told = _with_note(instance, now_ms, "compensation refused", step, event.reason)
        return _parked(told, f"the compensation of {step.name} was refused: {event.reason}", now_ms), None
    told = replace(_with_note(instance, now_ms, "compensated", step), data=dict(instance.data) | dict(event.data))
    return _backward(flow, told, instance.position - 1, now_ms)


def _overdue(flow: Flow, instance: Instance, event: TimeOut, now_ms: int) -> tuple[Instance, Ask | None]:
    # The answer may have arrived between the query for overdue instances and this event.
    if event.revision != instance.revision or not 0 < instance.due_ms <= now_ms:
        return instance, None
    step = flow.steps[instance.position]
    told = _with_note(instance, now_ms, "overdue", step, f"attempt {instance.attempt}")
    if instance.attempt <= step.retries:
        return _requesting(flow, replace(told, attempt=instance.attempt + 1), now_ms)
    what = f"{'the compensation of ' if instance.status is Status.COMPENSATING else ''}{step.name} was not answered"
    # A compensation is never abandoned for another one: only an operator can decide then.
    if instance.status is Status.RUNNING and step.on_timeout == "compensate":
        # The step may have been done, or be done yet: its own compensation is requested, too, and finds out.
        return _backward(flow, replace(told, reason=what), instance.position, now_ms)
    return _parked(told, f"{what} after {instance.attempt} attempts", now_ms), None


def _again(flow: Flow, instance: Instance, event: Retry, now_ms: int) -> tuple[Instance, Ask | None]:
    step = flow.steps[instance.position]
    told = _with_note(
        instance, now_ms, "skipped by a person" if event.skip else "tried again by a person", step, event.reason
    )
    status = Status.COMPENSATING if instance.was_compensating else Status.RUNNING
    # The attempts start again: an operator who has repaired the cause wants all of them.
    freed = replace(told, status=status, was_compensating=False, attempt=1)
    if not event.skip:
        return _requesting(flow, freed, now_ms)
    if status is Status.RUNNING:
        return _forward(flow, freed, now_ms)
    return _backward(flow, freed, instance.position - 1, now_ms)


def _stop(flow: Flow, instance: Instance, event: Suspend, now_ms: int) -> tuple[Instance, Ask | None]:
    if not event.compensate:
        return _parked(
            _with_note(instance, now_ms, "parked by a person", reason=event.reason), event.reason, now_ms
        ), None
    # It already goes back, or was parked while it did.
    if instance.status is Status.COMPENSATING or instance.was_compensating:
        return instance, None
    told = _with_note(instance, now_ms, "cancelled by a person", reason=event.reason)
    # Including the present step, which may have been done although its answer has not arrived: its compensation finds
    # out.
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
"""All transitions; an event that is not here changes nothing."""


def _is_waited_for(flow: Flow, instance: Instance, event: Answer) -> bool:
    waited = asked(flow, instance)
    return waited is not None and waited.key == event.key


def _forward(flow: Flow, instance: Instance, now_ms: int) -> tuple[Instance, Ask | None]:
    if instance.position + 1 == len(flow.steps):
        return _with_note(replace(instance, status=Status.COMPLETED, due_ms=0), now_ms, "completed"), None
    return _requesting(flow, replace(instance, position=instance.position + 1, attempt=1), now_ms)


def _backward(flow: Flow, instance: Instance, position: int, now_ms: int) -> tuple[Instance, Ask | None]:
    """Request the compensation of the last step at or before `position` that has one."""
    # Steps without a compensation have nothing to undo, such as a question.
    while position >= 0 and flow.steps[position].compensation is None:
        position -= 1
    if position < 0:
        ended = replace(instance, status=Status.COMPENSATED, position=0, due_ms=0)
        return _with_note(ended, now_ms, "all is compensated", reason=instance.reason), None
    return _requesting(flow, replace(instance, status=Status.COMPENSATING, position=position, attempt=1), now_ms)


def _parked(instance: Instance, reason: str, now_ms: int) -> Instance:
    backward = instance.status is Status.COMPENSATING or instance.was_compensating
    parked = replace(instance, status=Status.PARKED, due_ms=0, reason=reason, was_compensating=backward)
    return _with_note(parked, now_ms, "parked", reason=reason)


def _requesting(flow: Flow, instance: Instance, now_ms: int) -> tuple[Instance, Ask]:
    step = flow.steps[instance.position]
    patience_s = step.timeout_s
    if instance.attempt > 1:
        patience_s += step.backoff_s * 2 ** min(instance.attempt - 2, _MOST_DOUBLINGS)
    # At least a millisecond: 0 means that no answer is awaited.
    waiting = replace(instance, due_ms=now_ms + max(1, round(patience_s * 1000)), revision=instance.revision + 1)
    ask = asked(flow, waiting)
    assert ask is not None
    return waiting, ask


def _with_note(instance: Instance, now_ms: int, what: str, step: Step | None = None, reason: str = "") -> Instance:
    note = Note(time_ms=now_ms, what=what, step=step.name if step else "", reason=reason)
    return replace(instance, story=(*instance.story[1 - _NOTES_KEPT :], note), revision=instance.revision + 1)
