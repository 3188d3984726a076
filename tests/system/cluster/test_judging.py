"""The judge of the cluster's histories finds what is planted in one, and nothing in a right one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pyjms.history import Event, History
from pyjms.history.events import ACK, COMMIT, DELIVER, FAIL, OK, SEND, SUBSCRIBE, UNKNOWN
from tests.system.cluster.judging import judge
from tests.system.cluster.site import GROUPED

QUEUE, TOPIC, SHARED = "queue://orders", "topic://news", "/shared"
_MS = 1_000_000


def event(at_ms: int, op: str, mid: str | None = None, **more: object) -> Event:
    values: dict[str, object] = {
        "run": "r",
        "node": "n",
        "pid": "1",
        "conn": "c",
        "sess": "s",
        "consumer": None,
        "ok": OK,
        "dest": QUEUE,
        **more,
    }
    return Event(op=op, t0=at_ms * _MS, t1=(at_ms + 1) * _MS, mid=mid, **values)  # type: ignore[arg-type]


def send(at_ms: int, mid: str, **more: object) -> Event:
    return event(at_ms, SEND, mid, **{"mode": 2, "sn": at_ms, "prio": 4, **more})


def receive(at_ms: int, mid: str, consumer: str = "k", **more: object) -> list[Event]:
    """Return a delivery, and its acknowledgement."""
    values = {"consumer": consumer, "sess": f"of {consumer}", "dn": at_ms, **more}
    given = event(at_ms, DELIVER, mid, **{"mode": 2, "prio": 4, "redelivered": False, **values})
    values.pop("redelivered", None)
    return [given, event(at_ms + 2, ACK, mid, **values)]


def faults(*events: Event, crash_ms: int | None = None) -> list[str]:
    crashes = [] if crash_ms is None else [crash_ms * _MS]
    return [each.partition(":")[0] for each in judge(History(events=events), [(TOPIC, SHARED)], crashes).faults]


def test_a_right_history_is_right() -> None:
    assert faults(send(1, "a"), *receive(10, "a"), send(20, "b", mode=1), *receive(30, "b", mode=1)) == []


def test_a_message_that_is_lost_of_a_shared_subscription_is_found() -> None:
    sent = [send(10 + number, mid, dest=TOPIC) for number, mid in enumerate("ab")]
    got = receive(30, "a", dest=TOPIC, sub=SHARED)
    begun = event(1, SUBSCRIBE, dest=TOPIC, sub=SHARED, consumer="k", note='{"durable": true, "shared": true}')
    assert faults(begun, *sent, *got) == ["lost of a shared subscription"]
    assert faults(begun, *sent, *got, *receive(40, "b", "other", dest=TOPIC, sub=SHARED)) == []


@pytest.mark.parametrize(("subscription", "excused"), [(SHARED, True), ("/own", False)])
def test_another_consumer_of_a_shared_subscription_may_have_held_what_comes_late(
    subscription: str, excused: bool
) -> None:
    note = json.dumps({"durable": True, "shared": subscription == SHARED})
    of = {"dest": TOPIC, "sub": subscription}
    begun = [event(1, SUBSCRIBE, consumer=each, sess=f"of {each}", note=note, **of) for each in "kl"]
    sent = [send(10, "a", dest=TOPIC), send(11, "b", dest=TOPIC)]
    turned = [*receive(30, "b", **of), *receive(40, "a", **of)]
    assert ("reordered" in faults(*begun, *sent, *turned)) is not excused


@pytest.mark.parametrize(("crash_ms", "excused"), [(None, False), (5, False), (12, True), (500, True), (9_000, False)])
def test_a_transient_message_is_lost_only_with_what_postgresql_had_not_written(
    crash_ms: int | None, excused: bool
) -> None:
    found = faults(send(10, "a", mode=1), crash_ms=crash_ms)
    assert ("lost, though its leader's end is no reason" in found) is not excused


def test_groups_out_of_order_are_found() -> None:
    queue = f"queue://{GROUPED}"
    subscribed = [event(1, SUBSCRIBE, dest=queue, consumer=each, sess=f"of {each}") for each in "kl"]
    sent = [send(10, "a", dest=queue), send(11, "b", dest=queue)]
    first, second = receive(30, "a", dest=queue), receive(40, "b", dest=queue)
    assert faults(*subscribed, *sent, *first, *second) == []
    turned = [*receive(30, "b", dest=queue), *receive(40, "a", dest=queue)]
    assert faults(*subscribed, *sent, *turned) == ["out of order in its group"]


@pytest.mark.parametrize(
    ("outcome", "later_ms", "excused"), [(UNKNOWN, 5_000, True), (UNKNOWN, 27_000, False), (OK, 5_000, False)]
)
def test_a_message_in_doubt_may_be_on_its_way_for_a_while(outcome: str, later_ms: int, excused: bool) -> None:
    queue = f"queue://{GROUPED}"
    subscribed = [event(1, SUBSCRIBE, dest=queue, consumer=each, sess=f"of {each}") for each in "kl"]
    sent = [send(10, "a", dest=queue, ok=outcome), send(later_ms, "b", dest=queue)]
    turned = [*receive(30_000, "b", dest=queue), *receive(30_010, "a", dest=queue)]
    assert faults(*subscribed, *sent, *turned) == ([] if excused else ["out of order in its group"])


@pytest.mark.parametrize(
    ("outcome", "later_ms", "excused"), [(UNKNOWN, 5_000, True), (UNKNOWN, 27_000, False), (OK, 5_000, False)]
)
def test_a_transaction_in_doubt_may_be_settled_a_while_later(outcome: str, later_ms: int, excused: bool) -> None:
    begun = event(1, SUBSCRIBE, consumer="k", sess="of k")
    first = [send(10, "a", tx="t"), event(20, COMMIT, tx="t", ok=outcome)]
    turned = [*receive(30_000, "b"), *receive(30_010, "a")]
    assert faults(begun, *first, send(later_ms, "b"), *turned) == ([] if excused else ["reordered"])


def test_a_transaction_of_which_a_part_took_effect_is_found() -> None:
    sent, (given, settled) = send(10, "a"), receive(20, "a", tx="t")
    answer = send(25, "b", tx="t", sess="of k")
    end = event(30, COMMIT, tx="t", sess="of k")
    assert faults(sent, given, settled, answer, end, *receive(40, "b", "l")) == []
    doubt = replace(end, ok="unknown")
    assert "torn" in faults(sent, given, settled, answer, doubt)


def test_a_transaction_that_another_one_has_forestalled_is_not_torn() -> None:
    sent, (given, settled) = send(10, "a"), receive(20, "a", tx="late")
    answer = send(25, "b", tx="late", sess="of k")
    refused = event(30, COMMIT, tx="late", sess="of k", ok=FAIL)
    earlier = receive(15, "a", "l", tx="early", redelivered=True)
    done = event(18, COMMIT, tx="early", sess="of l")
    assert "torn" not in faults(sent, *earlier, done, given, settled, answer, refused)
