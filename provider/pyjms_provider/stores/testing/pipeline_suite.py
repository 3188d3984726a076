"""The contract of `Journal` about reader groups and staged units (`PipelineChanges`), rule by rule."""

from __future__ import annotations

from pyjms.spi.replay import StageName
from pyjms_provider.core.journal.journal import (
    Changes,
    GroupNumber,
    GroupRecord,
    NewMessage,
    PipelineChanges,
    Removal,
    Reservation,
    StageRecord,
)
from pyjms_provider.stores.testing.world import World

_AWKWARD = "a\0b \ud800 back\\slash \\u0041 😀"


def _group(world: World, number: int = 1, *, low: int = 0, fence: int = 1, name: str = "group") -> GroupRecord:
    return GroupRecord(
        number=GroupNumber(number),
        name=name,
        queue=world.queue,
        selector_text=_AWKWARD,
        generation=f"generation {number} {_AWKWARD}",
        low=low,
        fence=fence,
        opened_ms=2**41,
    )


def _write(world: World, *, removals: tuple[Removal, ...] = (), **pipelines: object) -> None:
    changes = Changes(removals=list(removals), pipelines=PipelineChanges(**pipelines))  # type: ignore[arg-type]
    world.journal.write(changes, force=True)


def _unit(epoch: int, partition: int = 0, attempt: str = "a") -> StageName:
    return StageName(_AWKWARD, epoch, partition, attempt)


def _stage(world: World, name: StageName, texts: int = 1, *, both: bool = False) -> list[int]:
    queues = (world.queue, world.other) if both else (world.queue,)
    messages: list[NewMessage] = [world.message(*queues) for _ in range(texts)]
    record = StageRecord(name=name, messages=texts, staged_ms=5, discarded_after_ms=2**45)
    world.journal.write(Changes(messages=messages, pipelines=PipelineChanges(staged=record)), force=True)
    return [message.reference.id for message in messages]


def test_a_reader_group_is_found_again_with_what_it_holds(world: World) -> None:
    """Groups come with their reservations, by number; the messages are entries of their queue as before."""
    sent = [world.add(world.message()).reference for _ in range(3)]
    _write(world, groups=[_group(world)])
    _write(world, reserved=[Reservation(GroupNumber(1), number, sent[number - 1], number) for number in (1, 2)])
    (found,) = world.reopen().recovery.groups
    assert found.record == _group(world)
    assert list(found.reserved) == [(1, sent[0].id, 1), (2, sent[1].id, 2)]
    assert [message for message, _ in world.found.ids] == [reference.id for reference in sent]


def test_a_reservation_may_be_written_again(world: World) -> None:
    """Who was not answered writes the same once more."""
    sent = world.add(world.message()).reference
    _write(world, groups=[_group(world)])
    for _ in range(2):
        _write(world, reserved=[Reservation(GroupNumber(1), 1, sent, 1)])
    assert list(world.reopen().recovery.groups[0].reserved) == [(1, sent.id, 1)]


def test_what_a_group_acknowledges_is_gone_and_its_low_mark_rises(world: World) -> None:
    """Removals and the mark are one write; it may be repeated."""
    sent = [world.add(world.message()).reference for _ in range(3)]
    reserved = [Reservation(GroupNumber(1), number, reference, 1) for number, reference in enumerate(sent, 1)]
    _write(world, groups=[_group(world)], reserved=reserved)
    removals = tuple(Removal(world.queue, reference) for reference in sent[:2])
    for _ in range(2):
        _write(world, removals=removals, acknowledged=[(GroupNumber(1), 2)])
    (found,) = world.reopen().recovery.groups
    assert (found.record.low, list(found.reserved)) == (2, [(3, sent[2].id, 1)])
    assert world.found.ids == [(sent[2].id, world.queue)]


def test_a_group_that_is_taken_over_keeps_what_it_holds(world: World) -> None:
    """Writing the record again replaces it alone."""
    sent = world.add(world.message()).reference
    _write(world, groups=[_group(world)], reserved=[Reservation(GroupNumber(1), 1, sent, 1)])
    _write(world, groups=[_group(world, fence=2)])
    (found,) = world.reopen().recovery.groups
    assert (found.record.fence, list(found.reserved)) == (2, [(1, sent.id, 1)])


def test_a_released_group_is_gone_and_its_messages_stay(world: World) -> None:
    """Only the group ends."""
    sent = world.add(world.message()).reference
    other = _group(world, 2, name="other")
    _write(world, groups=[_group(world), other], reserved=[Reservation(GroupNumber(1), 1, sent, 1)])
    _write(world, released=[GroupNumber(1)])
    assert [found.record.name for found in world.reopen().recovery.groups] == ["other"]
    assert world.found.ids == [(sent.id, world.queue)]


def test_groups_go_with_their_queue(world: World) -> None:
    """`drop_queue` forgets them, and what they hold."""
    sent = world.add(world.message()).reference
    _write(world, groups=[_group(world)], reserved=[Reservation(GroupNumber(1), 1, sent, 1)])
    world.journal.drop_queue(world.queue)
    assert list(world.reopen().recovery.groups) == []


def test_a_staged_unit_is_found_again_and_its_messages_are_no_entries(world: World) -> None:
    """It comes with all that it is known by; bodies can be read."""
    first, second = _stage(world, _unit(2**62, -1), 2, both=True)
    recovery = world.reopen().recovery
    (found,) = recovery.stages
    assert found.record == StageRecord(name=_unit(2**62, -1), messages=2, staged_ms=5, discarded_after_ms=2**45)
    assert [(queue, reference.id) for queue, reference in found.messages] == [
        (world.queue, first),
        (world.other, first),
        (world.queue, second),
        (world.other, second),
    ]
    assert world.found.ids == []
    assert set(world.bodies(first, second)) == {first, second}
    assert recovery.last_id >= second
    assert list(recovery.branches) == []


def test_units_are_promoted_and_discarded_together_with_the_marker(world: World) -> None:
    """One write ends them all; one that is not there is passed over."""
    good, lost, later = _stage(world, _unit(1), 2), _stage(world, _unit(1, 1), both=True), _stage(world, _unit(2))
    outcomes = [(_unit(1), True), (_unit(1, 1), False), (_unit(9), True)]
    for _ in range(2):
        _write(world, outcomes=outcomes, markers=[(_AWKWARD, 1), ("other", 2**62)])
    recovery = world.reopen().recovery
    assert [message for message, _ in world.found.ids] == good
    assert [found.record.name for found in recovery.stages] == [_unit(2)]
    assert dict(recovery.stage_markers) == {_AWKWARD: 1, "other": 2**62}
    assert set(world.bodies(*good, *lost, *later)) == {*good, *later}


def test_promoted_messages_are_removed_as_all_others_are(world: World) -> None:
    """Nothing of a unit is left when its messages have gone."""
    _stage(world, _unit(1), both=True)
    _write(world, outcomes=[(_unit(1), True)])
    entries = world.reopen().entries
    world.remove(*((entry.queue, entry.reference) for entry in entries))
    assert world.reopen().ids == []


def test_staged_messages_go_with_their_queue(world: World) -> None:
    """The unit stays, without them."""
    _stage(world, _unit(1), both=True)
    world.journal.drop_queue(world.queue)
    (found,) = world.reopen().recovery.stages
    assert [queue for queue, _ in found.messages] == [world.other]


def test_branches_and_staged_units_are_kept_apart(world: World) -> None:
    """The end of one leaves the other alone."""
    branch = world.message()
    world.prepare(1, branch)
    (staged,) = _stage(world, _unit(1))
    world.decide(1, commit=False)
    assert [found.record.name for found in world.reopen().recovery.stages] == [_unit(1)]
    world.prepare(2, world.message())
    _write(world, outcomes=[(_unit(1), True)])
    assert [message for message, _ in world.reopen().ids] == [staged]
    assert len(world.found.recovery.branches) == 1
