"""The part of the contract of `Journal` for registered clients. A test's docstring is its rule."""

from __future__ import annotations

from dataclasses import replace

from pyjms_provider.core.journal.journal import Changes, ClientChanges, ClientRecord, PreparedBranch, Removal
from pyjms_provider.stores.testing.world import World, xid

_AWKWARD = "a\0b \ud800 back\\slash \\u0041 😀"


def _client(name: str = _AWKWARD, **fields: object) -> ClientRecord:
    record = ClientRecord(name=name, generation="g1", incarnation=2**40, owner=_AWKWARD, registered_ms=5)
    return replace(record, **fields)  # type: ignore[arg-type]


def _write_clients(world: World, **clients: object) -> None:
    world.journal.write(Changes(clients=ClientChanges(**clients)), force=True)  # type: ignore[arg-type]


def test_a_registered_client_is_found_again_with_its_tags(world: World) -> None:
    """Clients are recovered with all fields; a later record replaces the whole earlier one."""
    tagged = _client(request_tag=_AWKWARD, request_ms=2**45, reply_tag="r", reply_ms=7, left_ms=9)
    _write_clients(world, put=[_client(), _client("other")])
    assert sorted(world.reopen().recovery.clients, key=lambda each: each.name) == sorted(
        [_client(), _client("other")], key=lambda each: each.name
    )
    for _ in range(2):  # a write whose answer was lost is repeated
        _write_clients(world, put=[tagged])
    assert {each.name: each for each in world.reopen().recovery.clients} == {
        _AWKWARD: tagged,
        "other": _client("other"),
    }


def test_tags_are_written_with_the_messages_of_their_unit(world: World) -> None:
    """One write adds and removes messages and replaces a client's record; its withdrawal restores the record."""
    sent = world.add(world.message()).reference
    _write_clients(world, put=[_client()])
    request, tagged = world.message(), _client(request_tag="1")
    changes = Changes(
        messages=[request],
        removals=[Removal(world.queue, sent)],
        clients=ClientChanges(put=[tagged], before=[_client()]),
    )
    world.journal.write(changes, force=True)
    assert list(world.reopen().recovery.clients) == [tagged]
    assert world.found.ids == [(request.reference.id, world.queue)]
    withdrawn = Changes(messages=[request], clients=changes.clients).withdrawal()
    world.journal.note(withdrawn)
    assert list(world.reopen().recovery.clients) == [_client()]
    assert world.found.ids == []


def test_a_client_that_leaves_or_is_dropped(world: World) -> None:
    """Leaving sets the time alone; a client that is unknown is ignored; a dropped one may be put again in the same write."""
    _write_clients(world, put=[_client(request_tag="1")])
    world.journal.note(Changes(clients=ClientChanges(left=[(_AWKWARD, 77), ("unknown", 78)])))
    assert list(world.reopen().recovery.clients) == [_client(request_tag="1", left_ms=77)]
    world.journal.note(Changes(clients=ClientChanges(dropped=[_AWKWARD, "unknown"])))
    _write_clients(world, put=[_client(generation="g2")])
    assert list(world.reopen().recovery.clients) == [_client(generation="g2")]
    _write_clients(world, dropped=[_AWKWARD])
    assert list(world.reopen().recovery.clients) == []


def test_the_tags_of_a_prepared_branch_wait_for_its_decision(world: World) -> None:
    """A branch is recovered with its client's record, which replaces the stored one when the branch is committed, and only then."""
    _write_clients(world, put=[_client()])
    for number, commit in ((1, False), (2, True)):
        tagged = _client(request_tag=str(number))
        prepared = PreparedBranch(xid(number), 5)
        changes = Changes(
            messages=[world.message()], prepared=prepared, clients=ClientChanges(put=[tagged], before=[_client()])
        )
        world.journal.write(changes, force=True)
        (found,) = world.reopen().recovery.branches
        assert list(found.clients) == [tagged]
        assert list(world.found.recovery.clients) == [_client()]
        world.decide(number, commit=commit)
        assert list(world.reopen().recovery.clients) == [tagged if commit else _client()]
        assert list(world.found.recovery.branches) == []
