"""A broker's management view of a store of workflows, and an operator's commands to an instance: `pyjms.spi.workflows`.

A command takes effect at once, as an engine would handle the same event: the state machine determines the next state,
the store is written if the instance still has the revision that the operator saw, then the next step is requested. If
the request fails, the time-out repeats it. So no engine need run for a command to count, and of two concurrent commands
one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyjms.api.session import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.flows.codec import INSTANCE, ask_message
from pyjms.flows.definition import Flow, FlowException, FlowStoreException
from pyjms.flows.instance import Ask, Event, Instance, Retry, Status, Suspend, advance, asked
from pyjms.flows.picture import draw
from pyjms.flows.states import FlowState, state_of, states_of
from pyjms.flows.store import FlowStore, check_store_url, open_store
from pyjms.runtime.connection import JmsConnection
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, Provider, ProviderConnection
from pyjms.spi.selector import quote
from pyjms.spi.url import ProviderUrl
from pyjms.spi.workflows import (
    InstanceQuery,
    SteeringCommand,
    UnknownWorkflowError,
    WorkflowChangedError,
    WorkflowDefinition,
    WorkflowError,
    WorkflowInstance,
    WorkflowNote,
    WorkflowRepository,
    WorkflowRepositoryOpener,
    WorkflowRepositoryRequest,
    WorkflowRequest,
    WorkflowState,
    WorkflowStateError,
    WorkflowStatus,
    WorkflowStep,
    WorkflowStoreError,
)

if TYPE_CHECKING:
    from pyjms.api.session import Session

_MEANS_NOTHING: Mapping[SteeringCommand, str] = {
    SteeringCommand.RETRY: "only one that is parked can try again",
    SteeringCommand.SKIP: "only one that is parked can go on after what was done by hand",
    SteeringCommand.PARK: "only one that has not ended can be parked",
    SteeringCommand.CANCEL: "only one that has not ended, and does not go backward, can be cancelled",
}


class FlowRepositoryOpener(WorkflowRepositoryOpener):
    """Opens databases with SQLAlchemy: the kind ``sql``."""

    def check(self, url: str) -> None:
        try:
            check_store_url(url)
        except FlowException as error:
            raise WorkflowError(str(error)) from error

    def open(self, request: WorkflowRepositoryRequest) -> WorkflowRepository:
        with _told_as_provider_errors():
            return FlowRepository(open_store(request.url), request)


class FlowRepository(WorkflowRepository):
    """The engines' store, for operators."""

    def __init__(self, store: FlowStore, request: WorkflowRepositoryRequest) -> None:
        self._store = store
        self._request = request

    def definitions(self) -> Sequence[WorkflowDefinition]:
        with _told_as_provider_errors():
            return [_definition(flow) for flow in self._store.flows()]

    def counts(self) -> Mapping[str, Mapping[WorkflowStatus, int]]:
        with _told_as_provider_errors():
            found: dict[str, dict[WorkflowStatus, int]] = {}
            for (flow, status), many in self._store.counts().items():
                found.setdefault(flow, {})[WorkflowStatus(status.value)] = many
            return found

    def instances(self, query: InstanceQuery) -> Sequence[WorkflowInstance]:
        with _told_as_provider_errors():
            found = self._store.instances(
                flow=query.workflow,
                status=_status(query),
                limit=query.limit,
                offset=query.offset,
                order=query.order,
            )
            flows = {(flow.name, flow.version): flow for flow in self._store.flows()}
            return [_view(flows[each.flow, each.version], each) for each in found]

    def count(self, query: InstanceQuery) -> int:
        with _told_as_provider_errors():
            return self._store.count(flow=query.workflow, status=_status(query))

    def instance_ids(self) -> Sequence[str]:
        with _told_as_provider_errors():
            return self._store.ids()

    def instance(self, instance_id: str) -> WorkflowInstance | None:
        with _told_as_provider_errors():
            found = self._store.find(instance_id)
            return None if found is None else _view(self._store.flow(found.flow, found.version), found)

    def picture(self, workflow: str, version: int = 0) -> str:
        with _told_as_provider_errors():
            return draw(self._store.flow(workflow, version))

    def picture_of(self, instance_id: str) -> str:
        with _told_as_provider_errors():
            found = self._found(instance_id)
            return draw(self._store.flow(found.flow, found.version), found)

    def steer(
        self, instance_id: str, command: SteeringCommand, *, reason: str, by: str, revision: int | None = None
    ) -> WorkflowInstance:
        signed = f"{by}: {reason}" if by and reason else by or reason
        with _told_as_provider_errors():
            before = self._found(instance_id)
            # The operator decided on the state shown; a change since then may ask for another decision.
            if revision is not None and before.revision != revision:
                raise _changed(before)
            flow = self._store.flow(before.flow, before.version)
            following, ask = advance(flow, before, _event(command, signed), self._request.clock.time_ms())
            # The state machine returns the same object for an event that does not fit: the operator gets an error,
            # while an engine would ignore it.
            if following is before:
                raise WorkflowStateError(
                    f"instance {instance_id} is {before.status.value}, so nothing was done: {_MEANS_NOTHING[command]}"
                )
            # An engine or another operator may have changed it between read and write: nothing is overwritten.
            if not self._store.replace(following, before.revision):
                raise _changed(self._found(instance_id))
        if ask is not None:
            # After the store, as in an engine. If the broker refuses, the instance's time-out repeats the request.
            self._ask(ask)
        return _view(flow, following)

    def close(self) -> None:
        self._store.close()

    def _found(self, instance_id: str) -> Instance:
        found = self._store.find(instance_id)
        if found is None:
            raise UnknownWorkflowError(f"there is no instance {instance_id[:100]!r}")
        return found

    def _ask(self, ask: Ask) -> None:
        """Send the request. Raises `WorkflowStoreError` when the broker refuses it."""
        try:
            connection = _connect(self._request)
            try:
                # No transaction: one message is sent, and the store was written before.
                session = connection.create_session(False, AcknowledgeMode.AUTO_ACKNOWLEDGE)
                _send(session, ask, self._request.events)
            finally:
                connection.close()
        except JMSException as error:
            raise WorkflowStoreError(
                f"instance {ask.instance} goes on, but {ask.step} could not be asked for now ({error}); it is asked for again "
                "by an engine when its time is up"
            ) from error


class _Here(Provider):
    """The broker that opened the store, as a provider."""

    def __init__(self, opens: Callable[[ConnectionEvents], ProviderConnection]) -> None:
        self._opens = opens

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        return self._opens(events)


def _connect(request: WorkflowRepositoryRequest) -> JmsConnection:
    asked_for = ConnectRequest(
        url=ProviderUrl.parse("here://workflows"), user_name=None, password=None, client_id=None, clock=request.clock
    )
    return JmsConnection(_Here(request.here), asked_for, frozenset())


def _send(session: Session, ask: Ask, events: str) -> None:
    message = ask_message(session, ask)
    message.jms_reply_to = session.create_queue(events)
    session.create_producer(session.create_queue(ask.queue)).send(message)


@contextmanager
def _told_as_provider_errors() -> Iterator[None]:
    try:
        yield
    except FlowStoreException as error:
        raise WorkflowStoreError(str(error).partition("\n")[0]) from error  # without the statement
    except FlowException as error:
        raise UnknownWorkflowError(str(error)) from error


def _changed(now: Instance) -> WorkflowChangedError:
    return WorkflowChangedError(
        f"instance {now.id} was at another revision when you looked at it, so nothing was done; it is {now.status.value} at "
        f"revision {now.revision} now: look at it again"
    )


def _event(command: SteeringCommand, reason: str) -> Event:
    if command in {SteeringCommand.RETRY, SteeringCommand.SKIP}:
        return Retry(skip=command is SteeringCommand.SKIP, reason=reason)
    return Suspend(reason=reason, compensate=command is SteeringCommand.CANCEL)


def _status(query: InstanceQuery) -> Status | None:
    return None if query.status is None else Status(query.status.value)


def _definition(flow: Flow) -> WorkflowDefinition:
    return WorkflowDefinition(
        name=flow.name,
        version=flow.version,
        title=flow.title,
        initial_state=flow.initial_state,
        steps=[
            WorkflowStep(
                name=step.name,
                queue=step.queue,
                compensation=step.compensation,
                state=step.state,
                timeout_ms=round(step.timeout_s * 1000),
                retries=step.retries,
                on_timeout=step.on_timeout,
                takes=step.takes,
                releases=step.releases,
            )
            for step in flow.steps
        ],
        states=[_state(each) for each in states_of(flow)],
    )


def _state(state: FlowState) -> WorkflowState:
    return WorkflowState(
        status=WorkflowStatus(state.status.value),
        step=state.step,
        is_backward=state.is_backward,
        visible_state=state.visible_state,
        waits_for=state.waits_for,
        holds=state.holds,
        changing=state.changing,
    )


def _view(flow: Flow, instance: Instance) -> WorkflowInstance:
    step = flow.steps[instance.position]
    requests = _requests(flow, instance)
    state = state_of(flow, instance)
    return WorkflowInstance(
        id=instance.id,
        workflow=instance.flow,
        version=instance.version,
        status=WorkflowStatus(instance.status.value),
        step="" if instance.status.is_final else step.name,
        is_backward=_is_backward(instance),
        attempt=instance.attempt,
        attempts_max=step.retries + 1,
        visible_state=instance.state(flow),
        holds=state.holds,
        changing=state.changing,
        due_at_ms=instance.due_ms or None,
        changed_at_ms=instance.story[-1].time_ms,
        revision=instance.revision,
        reason=instance.reason,
        data=instance.data,
        notes=[
            WorkflowNote(at_ms=each.time_ms, what=each.what, step=each.step, reason=each.reason)
            for each in instance.story
        ],
        requests=requests,
        selector=_selector(instance.id, requests),
    )


def _selector(instance_id: str, requests: Sequence[WorkflowRequest]) -> str:
    keys = ", ".join(quote(each.correlation_id) for each in requests)
    return f"{INSTANCE} = {quote(instance_id)} OR JMSCorrelationID IN ({keys})"


def _is_backward(instance: Instance) -> bool:
    return instance.was_compensating or instance.status in {Status.COMPENSATING, Status.COMPENSATED}


def _requests(flow: Flow, instance: Instance) -> list[WorkflowRequest]:
    """Return all requests so far: steps up to the furthest one, then compensations back to the present one."""
    # Once an instance goes back, its position does not tell how far it had come; its history does, as far as it is
    # kept.
    told = {note.step for note in instance.story}
    reached = max([instance.position, *(index for index, step in enumerate(flow.steps) if step.name in told)])
    waited = asked(flow, instance)
    found: list[Ask] = [_ask_of(instance, index, flow, backward=False) for index in range(reached + 1)]
    if _is_backward(instance):
        # Compensations are requested from the last step backwards.
        undone = reversed(range(instance.position, reached + 1))
        found += [_ask_of(instance, index, flow, backward=True) for index in undone if flow.steps[index].compensation]
    return [
        WorkflowRequest(
            step=each.step,
            queue=each.queue,
            is_compensation=each.is_compensation,
            correlation_id=each.key,
            is_waited_for=waited is not None and waited.key == each.key,
        )
        for each in found
    ]


def _ask_of(instance: Instance, index: int, flow: Flow, *, backward: bool) -> Ask:
    step = flow.steps[index]
    return Ask(
        queue=(step.compensation if backward else step.queue) or "",
        instance=instance.id,
        step=step.name,
        is_compensation=backward,
        attempt=1,
        data={},
    )
