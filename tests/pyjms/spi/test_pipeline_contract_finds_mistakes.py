"""The contract tests of reader groups and staged units are tests of something: each mistake here makes one of them fail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pyjms.spi.errors import ProviderError
from pyjms_provider.core.queue.consumer import Consumer, ConsumerTarget
from pyjms_provider.core.transaction import stages as stages_module
from pyjms_provider.core.transaction.reader_groups import Group, GroupEntry, GroupTable
from pyjms_provider.core.transaction.stages import StageTable
from pyjms_provider.core.transaction.unit_of_work import UnitOfWork
from pyjms_tck.spi import pipeline_suite
from pyjms_tck.spi.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyjms.spi.replay import OpenGroup, StageName
    from pyjms_provider.core.store import MessageStore

Replace = dict[tuple[object, str], object]

_pull, _settle, _end, _is_enough, _check = Group.pull, Group.settle, Group.end, Group.is_enough, Group.check
_promote, _stage = StageTable.promote, StageTable.stage


def pull_backwards(
    group: Group, consumer: Consumer, room: int, room_bytes: int | None, *, one: bool, store: MessageStore
) -> list[GroupEntry]:
    """Numbers do not follow the queue's order."""
    return _pull(group, consumer, room, room_bytes, one=one, store=store)[::-1]


def pull_without_limit(
    group: Group, consumer: Consumer, room: int, room_bytes: int | None, *, one: bool, store: MessageStore
) -> list[GroupEntry]:
    """Bytes are not counted."""
    return _pull(group, consumer, room, None, one=one, store=store)


def pull_and_return(
    group: Group, consumer: Consumer, room: int, room_bytes: int | None, *, one: bool, store: MessageStore
) -> list[GroupEntry]:
    """What is reserved is left to others."""
    pulled = _pull(group, consumer, room, room_bytes, one=one, store=store)
    group.give_back_unseen(pulled)
    return pulled


def settle_nothing(group: Group, upto: int, gone: Sequence[GroupEntry]) -> None:
    """What is acknowledged comes back with the release."""
    with group.lock:
        del group._held[: upto - group.low]
        group.low = upto


def end_unseen(group: Group) -> int:
    """What is released is not marked."""
    held = [each for each in group._held if each is not None]
    group.give_back_unseen(held)
    _end(group)
    return len(held)


def check_generation_only(group: Group, opened: OpenGroup) -> None:
    """Nobody is fenced."""
    _check(group, replace(opened, fence=group.record.fence))


def check_fence_only(group: Group, opened: OpenGroup) -> None:
    """Another generation is as good."""
    _check(group, replace(opened, group=replace(opened.group, generation=group.record.generation)))


def enough_of_all(group: Group, after: int, max_messages: int, max_bytes: int | None) -> int | None:
    """Whatever is reserved is returned, however much that is."""
    found = _is_enough(group, after, max_messages, max_bytes)
    return None if found is None else group.high


def promote_always(table: StageTable, sink: str, epoch: int, units: Sequence[StageName]) -> bool:
    """The marker is not heeded."""
    return _promote(table, sink, epoch, units) or True


def promote_some(table: StageTable, sink: str, epoch: int, units: Sequence[StageName]) -> bool:
    """What is not there is passed over."""
    known = table._sinks[sink].staged
    return _promote(table, sink, epoch, [name for name in units if name in known and name.epoch == epoch])


def stage_and_show(
    table: StageTable,
    name: StageName,
    keep_s: int,
    unit: UnitOfWork,
    begin_commit: Callable[[], UnitOfWork | None],
) -> int:
    """What is staged is seen."""
    staged = _stage(table, name, keep_s, unit, begin_commit)
    table._sinks[name.sink].staged[name].unit.decide(commit=True)
    return staged


_decide = UnitOfWork.decide


def _consumer_of_all(group: Group, on_ready: Callable[[], None]) -> Consumer:
    return Consumer(group.queue, ConsumerTarget(group._holder, on_ready))


MISTAKES: dict[str, tuple[Replace, Callable[..., None]]] = {
    "numbers out of order": (
        {(Group, "pull"): pull_backwards},
        pipeline_suite.test_what_is_reserved_is_numbered_from_1_and_read_the_same_each_time,
    ),
    "bytes are not counted": (
        {(Group, "pull"): pull_without_limit},
        pipeline_suite.test_a_limit_of_bytes_lets_one_message_pass_at_least,
    ),
    "others get what is held": (
        {(Group, "pull"): pull_and_return},
        pipeline_suite.test_nobody_else_gets_what_a_group_holds,
    ),
    "limits of messages do not hold": (
        {(Group, "is_enough"): enough_of_all},
        pipeline_suite.test_a_reservation_goes_no_further_than_it_may_and_begins_where_it_is_told,
    ),
    "a reservation holds nothing of what comes while it waits": (
        {(GroupTable, "_reserve_more"): lambda *_: None},
        pipeline_suite.test_a_reservation_waits_for_a_message_and_not_for_ever,
    ),
    "the low mark stays": (
        {(Group, "settle"): lambda group, upto, gone: None},
        pipeline_suite.test_acknowledging_is_cumulative_and_may_be_repeated,
    ),
    "what is acknowledged comes back": (
        {(Group, "settle"): settle_nothing},
        pipeline_suite.test_what_is_released_comes_back_in_its_place_marked_and_what_was_acknowledged_does_not,
    ),
    "what is released is not marked": (
        {(Group, "end"): end_unseen},
        pipeline_suite.test_what_is_released_comes_back_in_its_place_marked_and_what_was_acknowledged_does_not,
    ),
    "nobody is fenced": (
        {(Group, "check"): check_generation_only},
        pipeline_suite.test_who_opens_a_group_fences_who_had_it_open,
    ),
    "generations are not told apart": (
        {(Group, "check"): check_fence_only},
        pipeline_suite.test_numbers_of_a_released_group_mean_nothing_to_the_next_one,
    ),
    "a group reads whatever is asked for": (
        {("pyjms_provider.core.transaction.reader_groups", "_check_same"): lambda *_: None},
        pipeline_suite.test_a_group_reads_what_it_was_made_for,
    ),
    "the selector is not heeded": (
        {(Group, "new_consumer"): _consumer_of_all},
        pipeline_suite.test_a_selector_leaves_the_other_messages_to_others,
    ),
    "topics are read from nowhere": (
        {(Group, "page"): lambda group, after, upto: []},
        pipeline_suite.test_a_group_reads_a_durable_subscription,
    ),
    "what is staged is seen": (
        {(StageTable, "stage"): stage_and_show},
        pipeline_suite.test_a_staged_unit_is_seen_when_its_epoch_is_promoted_and_once,
    ),
    "the marker is not heeded": (
        {(StageTable, "promote"): promote_always},
        pipeline_suite.test_an_epoch_without_units_moves_the_marker_and_is_over,
    ),
    "losing attempts are seen": (
        {(UnitOfWork, "decide"): lambda unit, *, commit: _decide(unit, commit=True)},
        pipeline_suite.test_other_units_up_to_the_epoch_are_discarded_and_later_ones_stay,
    ),
    "half an epoch is promoted": (
        {(StageTable, "promote"): promote_some},
        pipeline_suite.test_an_epoch_is_promoted_as_a_whole_or_not_at_all,
    ),
    "late units are staged": (
        {(stages_module, "_check_epoch"): lambda name, sink: None},
        pipeline_suite.test_an_epoch_without_units_moves_the_marker_and_is_over,
    ),
    "names may come twice": (
        {(StageTable, "_claim"): lambda table, sink, name, unit: None},
        pipeline_suite.test_a_name_is_given_once,
    ),
    "nothing is discarded": (
        {(StageTable, "discard"): lambda table, units: 0},
        pipeline_suite.test_discarding_may_be_repeated_and_leaves_alone_what_was_promoted,
    ),
    "what was received is staged, too": (
        {(UnitOfWork, "size"): property(lambda unit: (len(unit._sent), 0))},
        pipeline_suite.test_a_unit_that_has_received_cannot_be_staged,
    ),
}


@pytest.fixture
def impatient(vm_url: str) -> Iterator[Environment]:
    with Environment(vm_url, patience_s=0.3) as opened:
        yield opened


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(impatient: Environment, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    replaced, contract_test = MISTAKES[mistake]
    subject: object
    if "environment" in contract_test.__annotations__:
        subject = impatient
    elif "sink" in contract_test.__annotations__:
        subject = pipeline_suite.open_sink(impatient)
    else:
        subject = pipeline_suite.open_reading(impatient)
    assert subject is not None
    for (owner, name), instead in replaced.items():
        if isinstance(owner, str):
            monkeypatch.setattr(f"{owner}.{name}", instead)
        else:
            monkeypatch.setattr(owner, name, instead)
    with pytest.raises((AssertionError, pytest.fail.Exception, ProviderError)):
        contract_test(subject)


def test_each_contract_test_has_a_mistake_that_it_finds() -> None:
    tested = {contract_test for _, contract_test in MISTAKES.values()}
    untested = {
        name for name, value in vars(pipeline_suite).items() if name.startswith("test_") and value not in tested
    }
    assert not untested
