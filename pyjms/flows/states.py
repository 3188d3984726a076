"""The states of a workflow's instances, with the resources that are held in each: derived from the definition. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyjms.flows.definition import Flow
from pyjms.flows.instance import Instance, Status

__all__ = ["FlowState", "state_of", "states_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowState:
    """One state of an instance: a step in progress, forward or backward, or an end. Between them is one atomic transaction each."""

    status: Status
    step: str
    """The step that is requested, or compensated; "": the instance has ended."""
    is_backward: bool
    visible_state: str
    """The consistent state of the business that others may see; "": it is not consistent, as some steps are undone and others are not."""
    waits_for: str | None
    """The queue whose server works on it; None: none does."""
    holds: tuple[str, ...]
    """The resources that it holds, sorted."""
    changing: tuple[str, ...]
    """The resources that the step in progress is taking or releasing, sorted: whether they are held is known when it is done."""


def states_of(flow: Flow) -> tuple[FlowState, ...]:
    """Return all states of instances: forward, the end, backward, the other end. An instance may be parked in each that is no end."""
    forward = [_at(flow, index, backward=False) for index in range(len(flow.steps))]
    undone = reversed(range(len(flow.steps)))
    backward = [_at(flow, index, backward=True) for index in undone if flow.steps[index].compensation is not None]
    completed = _end(Status.COMPLETED, flow.states()[-1])
    return (*forward, completed, *backward, _end(Status.COMPENSATED, ""))


def state_of(flow: Flow, instance: Instance) -> FlowState:
    """Return the state of an instance. One that is parked keeps what it held."""
    if instance.status.is_final:
        return _end(instance.status, instance.state(flow))
    backward = instance.was_compensating or instance.status is Status.COMPENSATING
    found = _at(flow, instance.position, backward=backward)
    if instance.status is Status.PARKED:
        return replace(found, status=Status.PARKED, waits_for=None)
    return found


def _at(flow: Flow, index: int, *, backward: bool) -> FlowState:
    step = flow.steps[index]
    before, after = flow.held(index), flow.held(index + 1)
    return FlowState(
        status=Status.COMPENSATING if backward else Status.RUNNING,
        step=step.name,
        is_backward=backward,
        visible_state="" if backward else flow.states()[index],
        waits_for=step.compensation if backward else step.queue,
        holds=tuple(sorted(before & after)),
        changing=tuple(sorted(before ^ after)),
    )


def _end(status: Status, visible_state: str) -> FlowState:
    return FlowState(
        status=status,
        step="",
        is_backward=status is Status.COMPENSATED,
        visible_state=visible_state,
        waits_for=None,
        holds=(),
        changing=(),
    )
