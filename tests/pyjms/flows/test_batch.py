"""Several events at once: each is obeyed in its turn, and what is written and asked for is told once."""

from __future__ import annotations

import json

import pytest

from pyjms.flows import FlowStore, Instance, Status
from pyjms.flows.codec import Start, read_instance, write_instance
from pyjms.flows.definition import Flow, FlowException, FlowStoreException
from pyjms.flows.engine import Arrival, Batch, decide
from pyjms.flows.instance import Answer, Retry, Suspend
from tests.pyjms.flows.supply import supply_flow

NOW_MS = 1_000
START = Start(flow="order", version=0, data={"order": "tea"})


def flow_of(name: str, _version: int) -> Flow:
    if name != "order":
        raise FlowException(f"no definition {name} is deployed")
    return supply_flow()


def decided(*arrivals: Arrival, known: tuple[Instance, ...] = ()) -> Batch:
    return decide(arrivals, {each.id: each for each in known}, flow_of, NOW_MS)


def begun() -> Instance:
    (instance,) = decided(Arrival(instance="a", event=START)).begun
    return instance


def test_events_of_one_instance_are_obeyed_in_their_order() -> None:
    batch = decided(
        Arrival(instance="a", event=START),
        Arrival(instance="b", event=START),
        Arrival(instance="a", event=Answer(key="a:reserve")),
        Arrival(instance="a", event=Suspend(reason="wait")),
    )
    assert batch.changed == []
    assert [(each.id, each.status, each.position) for each in batch.begun] == [
        ("a", Status.PARKED, 1),
        ("b", Status.RUNNING, 0),
    ]
    assert [each.key for each in batch.asks] == ["a:reserve", "b:reserve", "a:weigh"]


def test_what_changed_is_told_with_the_revision_that_was_known() -> None:
    known = begun()
    batch = decided(Arrival(instance="a", event=Answer(key="a:reserve")), known=(known,))
    assert [(each.position, revision) for each, revision in batch.changed] == [(1, known.revision)]
    assert batch.begun == []


def test_what_comes_again_is_asked_for_again_and_only_once() -> None:
    again = [Arrival(instance="a", event=START, was_delivered=True)] * 2
    assert [each.key for each in decided(*again, known=(begun(),)).asks] == ["a:reserve"]
    assert decided(Arrival(instance="a", event=START), known=(begun(),)).asks == []


def test_what_a_person_says_counts_once_though_it_comes_again() -> None:
    skip = Arrival(instance="a", event=Retry(skip=True), id="ID:1", was_delivered=True)
    park = Arrival(instance="a", event=Suspend(reason="wait"))
    batch = decided(Arrival(instance="a", event=START), park, skip, park, skip)
    (instance,) = batch.begun
    assert (instance.status, instance.position) == (Status.PARKED, 1)
    again = decided(Arrival(instance="a", event=Retry(skip=True), id="ID:2"), known=(instance,))
    assert [each.position for each, _ in again.changed] == [2], "what is said anew counts"


def test_the_last_words_of_persons_alone_are_remembered() -> None:
    arrivals = [Arrival(instance="a", event=START)]
    for number in range(60):
        arrivals.append(Arrival(instance="a", event=Suspend(reason="wait"), id=f"ID:{number}"))
        arrivals.append(Arrival(instance="a", event=Retry()))
    (instance,) = decided(*arrivals).begun
    assert instance.heard == tuple(f"ID:{number}" for number in range(10, 60))
    assert read_instance(write_instance(instance)) == instance


def test_an_instance_that_was_written_before_ids_were_kept_can_be_read() -> None:
    instance = begun()
    document = {name: each for name, each in json.loads(write_instance(instance)).items() if name != "heard"}
    assert read_instance(json.dumps(document)) == instance


def test_what_means_nothing_keeps_nothing_else_back() -> None:
    unknown = Arrival(instance="c", event=Retry())
    undeployed = Arrival(instance="d", event=Start(flow="other", version=0, data={}))
    batch = decided(unknown, undeployed, Arrival(instance="a", event=START))
    assert [arrival for arrival, _ in batch.refused] == [unknown, undeployed]
    assert [each.id for each in batch.begun] == ["a"]


def test_a_store_that_fails_is_no_fault_of_the_event() -> None:
    def failing(_name: str, _version: int) -> Flow:
        raise FlowStoreException("the disk is full")

    with pytest.raises(FlowStoreException):
        decide([Arrival(instance="a", event=START)], {}, failing, NOW_MS)


def test_a_store_keeps_all_of_a_batch_or_nothing(store: FlowStore) -> None:
    store.deploy(supply_flow())
    first = decided(Arrival(instance="a", event=START), Arrival(instance="b", event=START))
    assert store.keep(first.begun, first.changed)
    known = store.find_all(["a", "b", "c"])
    assert sorted(known) == ["a", "b"]
    answers = [Arrival(instance=each, event=Answer(key=f"{each}:reserve")) for each in ("a", "b")]
    following = decided(*answers, Arrival(instance="c", event=START), known=tuple(known.values()))
    (b,) = [change for change in following.changed if change[0].id == "b"]
    assert store.replace(*b), "somebody is quicker with b"
    assert not store.keep(following.begun, following.changed)
    assert {each.id: each.position for each in store.find_all(["a", "b", "c"]).values()} == {"a": 0, "b": 1}
    assert not store.keep(first.begun, ())
