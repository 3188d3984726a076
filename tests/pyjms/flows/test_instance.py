"""The state machine of an instance: forward, backward, parked; and whatever comes in whatever order, it ends well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.flows import Flow, Instance, Status
from pyjms.flows.codec import read_flow_document, read_instance, write_flow_document, write_instance
from pyjms.flows.instance import Answer, Ask, Event, Retry, Suspend, TimeOut, advance, asked, begin
from tests.pyjms.flows.supply import supply_flow

FLOW = supply_flow()


def run(flow: Flow, *events: Event, now_ms: int = 0) -> tuple[Instance, list[str]]:
    """Return the instance after `events`, and the keys of what was asked for."""
    instance, ask = begin(flow, "i", {}, now_ms)
    keys = [ask.key]
    for event in events:
        actual = TimeOut(revision=instance.revision) if isinstance(event, TimeOut) else event
        instance, following = advance(flow, instance, actual, instance.due_ms)
        keys += [following.key] if following else []
    return instance, keys


def done(step: str) -> Answer:
    return Answer(key=f"i:{step}", data={step: "done"})


def refused(step: str) -> Answer:
    return Answer(key=f"i:{step}", is_refused=True, reason="no")


OVERDUE = TimeOut(revision=0)


@pytest.mark.realises("MOM-38", "MOM-54")
def test_steps_follow_one_another_and_data_is_collected() -> None:
    instance, keys = run(FLOW, done("reserve"), done("weigh"), done("pay"), done("ship"))
    assert keys == ["i:reserve", "i:weigh", "i:pay", "i:ship"]
    assert (instance.status, instance.due_ms, instance.state(FLOW)) == (Status.COMPLETED, 0, "on its way")
    assert set(instance.data) == {"reserve", "weigh", "pay", "ship"}


@pytest.mark.realises("MOM-43")
def test_a_refused_step_has_what_was_done_compensated_in_reverse_order() -> None:
    instance, keys = run(
        FLOW, done("reserve"), done("weigh"), done("pay"), refused("ship"), done("pay:undo"), done("reserve:undo")
    )
    assert keys[4:] == ["i:pay:undo", "i:reserve:undo"]
    assert (instance.status, instance.reason) == (Status.COMPENSATED, "ship was refused: no")


def test_a_first_step_that_is_refused_leaves_nothing_to_compensate() -> None:
    assert run(FLOW, refused("reserve"))[0].status is Status.COMPENSATED


def test_a_step_that_nobody_answered_is_asked_for_again_and_then_compensated_itself() -> None:
    instance, keys = run(FLOW, OVERDUE, OVERDUE)
    assert keys == ["i:reserve", "i:reserve", "i:reserve:undo"]
    assert (instance.status, instance.attempt) == (Status.COMPENSATING, 1)


def test_a_step_that_must_not_go_back_by_itself_is_parked() -> None:
    instance, _ = run(FLOW, done("reserve"), OVERDUE)
    assert (instance.status, instance.reason) == (Status.PARKED, "weigh was not answered after 1 attempts")
    assert instance.state(FLOW) == "reserved"


@pytest.mark.realises("MOM-44")
@pytest.mark.parametrize("events", [(refused("reserve:undo"),), (OVERDUE, OVERDUE)])
def test_a_compensation_that_is_impossible_is_parked_for_a_person(events: tuple[Event, ...]) -> None:
    instance, _ = run(FLOW, done("reserve"), refused("weigh"), *events)
    assert instance.status is Status.PARKED
    assert "the compensation of reserve was" in instance.reason
    again, keys = run(FLOW, done("reserve"), refused("weigh"), *events, Retry())
    assert (again.status, keys[-1]) == (Status.COMPENSATING, "i:reserve:undo")
    skipped, _ = run(FLOW, done("reserve"), refused("weigh"), *events, Retry(skip=True))
    assert skipped.status is Status.COMPENSATED


def test_a_person_may_skip_a_step_that_was_done_by_hand() -> None:
    instance, keys = run(FLOW, done("reserve"), OVERDUE, Retry(skip=True))
    assert (instance.status, keys[-1]) == (Status.RUNNING, "i:pay")


def test_a_person_may_cancel_what_runs_or_is_parked() -> None:
    for events in ((), (Suspend(reason="wait"),)):
        instance, keys = run(FLOW, done("reserve"), *events, Suspend(reason="the customer left", compensate=True))
        assert (instance.status, keys[-1], instance.reason) == (
            Status.COMPENSATING,
            "i:reserve:undo",
            "the customer left",
        )


@pytest.mark.parametrize("late", [done("pay"), done("reserve"), refused("reserve"), Retry(), done("reserve:undo")])
def test_what_comes_too_early_or_too_late_changes_nothing(late: Event) -> None:
    instance, _ = run(FLOW, done("reserve"))
    assert advance(FLOW, instance, late, 5) == (instance, None)


def test_a_time_out_of_an_earlier_revision_or_before_its_time_changes_nothing() -> None:
    instance, _ = begin(FLOW, "i", {}, 0)
    assert advance(FLOW, instance, TimeOut(revision=instance.revision - 1), 10**9) == (instance, None)
    assert advance(FLOW, instance, TimeOut(revision=instance.revision), instance.due_ms - 1) == (instance, None)


KEYS = st.sampled_from([f"i:{step.name}{undo}" for step in FLOW.steps for undo in ("", ":undo")])
EVENTS = st.lists(
    st.one_of(
        st.builds(Answer, key=KEYS, is_refused=st.booleans()),
        st.just(OVERDUE),
        st.builds(Retry, skip=st.booleans()),
        st.builds(Suspend, reason=st.just("stop"), compensate=st.booleans()),
    ),
    max_size=40,
)


@pytest.mark.realises("MOM-43")
@given(EVENTS)
def test_whatever_happens_every_step_that_was_done_is_completed_or_undone(events: list[Event]) -> None:
    instance, ask = begin(FLOW, "i", {}, 0)
    asks: list[Ask] = [ask]
    for event in events:
        actual = TimeOut(revision=instance.revision) if isinstance(event, TimeOut) else event
        before = instance
        instance, following = advance(FLOW, before, actual, before.due_ms)
        assert (instance is before) or instance.revision > before.revision
        asks += [following] if following else []
        assert (asked(FLOW, instance) is not None) == (instance.status in (Status.RUNNING, Status.COMPENSATING))
        assert (instance.due_ms > 0) == (instance.status in (Status.RUNNING, Status.COMPENSATING))
        assert read_instance(write_instance(instance)) == instance
    undone = [each.step for each in asks if each.is_compensation]
    positions = [[step.name for step in FLOW.steps].index(name) for name in dict.fromkeys(undone)]
    assert positions == sorted(positions, reverse=True)
    if instance.status is Status.COMPENSATED:
        skipped = {note.step for note in instance.story if note.what.startswith("skipped")}
        completed = {note.step for note in instance.story if note.what == "done"} - {"weigh", "ship"} - skipped
        assert completed <= {note.step for note in instance.story if note.what == "compensated"} | set(undone)


def test_a_definition_equals_itself_after_it_was_written_down() -> None:
    assert read_flow_document(write_flow_document(FLOW)) == FLOW
