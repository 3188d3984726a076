"""The base of all configured objects: phases, context, changes, threads, listeners, and nothing half created."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import current_thread
from typing import Any, ClassVar

import pytest

from pyjms.spi.errors import ClosedError, ResourceError
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import MASK, Attributes, Secret, attribute
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.configuration.writer import MemoryConfigurationStore
from pyjms_provider.model.configured import Stoppable
from pyjms_provider.model.errors import (
    FailedOpeningError,
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    ObjectInUseError,
    Problem,
    UnknownCategoryError,
    UnknownObjectError,
    UnknownOperationError,
    WrongStateError,
)
from pyjms_provider.model.managed import ManagedObject, State
from pyjms_provider.security.secrets import SecretBox
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord
from pyjms_provider.stores.errors import StoreError
from tests.provider.model.world import Recorder

TIMEOUT_S = 20


class ThingAttributes(Attributes):
    size: int = attribute("How big.", default="${size}", ge=0)
    fixed: str = attribute("Stays.", default="a", mutable=False)
    secret: Secret | None = attribute("Hidden.", default=None, secure=True)
    friend: str | None = attribute("Another one.", default=None, refers_to="thing")


class Thing(Stoppable):
    """A category that remembers what is called, and fails where it is told to."""

    category = "thing"
    attributes_class = ThingAttributes
    calls: ClassVar[list[str]] = []
    fails: ClassVar[set[str]] = set()

    def _note(self, phase: str) -> None:
        self.calls.append(f"{self.name} {phase} on {current_thread().name.rpartition(' ')[2]}")
        if phase in self.fails:
            raise ResourceError(f"{phase} was told to fail")

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        self.calls.append(f"{self.name} validate")
        if new.description == "bad":
            raise InvalidAttributesError(self.path, (Problem(name="description", text="is bad"),))

    def _on_create(self) -> None:
        siblings = self.parent.child_names("thing") if self.parent is not None else []
        self._note("create" if self.name in siblings else "create unregistered")

    def _on_open(self) -> None:
        self._note("open")

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        self._note("change")

    def _on_stop(self) -> None:
        self._note("stop")

    def _on_delete(self) -> None:
        self._note("delete")


class Part(Thing):
    """What stands below a thing."""

    category = "part"

    def _on_create(self) -> None:
        self._note("create")


class BrokenStore(MemoryConfigurationStore):
    """A store whose disk may be full, and that shows what it was given to keep."""

    is_lasting = True
    is_full = False

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[ObjectId, ObjectRecord] = {}

    def update(self, records: Sequence[ObjectRecord], removed: Collection[ObjectId] = ()) -> None:
        if self.is_full:
            raise StoreError("the disk is full; nothing was written")
        super().update(records, removed)
        self.kept.update({record.id: record for record in records})
        for each in removed:
            self.kept.pop(each, None)

    def edit(self, changed: ObjectId, attributes: Mapping[str, Any], source: str = "") -> None:
        """Change a record while nobody holds the store, as a person does who edits the file."""
        self.open("a person")
        self.update([replace(self.kept[changed], attributes=attributes, source=source)])
        self.close()


@pytest.fixture
def store() -> BrokenStore:
    return BrokenStore()


@pytest.fixture
def system(store: BrokenStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[SystemConfig]:
    shapes = {
        **tree.TREE,
        "thing": tree.CategoryShape(category="thing", parent="broker", summary="x", default_type="plain"),
        "part": tree.CategoryShape(category="part", parent="thing", summary="x", default_type="plain"),
    }
    monkeypatch.setattr(tree, "TREE", shapes)
    monkeypatch.setattr(tree, "_added", {"thing": {"plain": Thing}, "part": {"plain": Part}})
    monkeypatch.setattr(Thing, "calls", [])
    monkeypatch.setattr(Thing, "fails", set())
    system = open_system(store)
    yield system
    system.close()


BOX = SecretBox((b"k" * 32,))


def open_system(store: BrokenStore, **context: str) -> SystemConfig:
    return SystemConfig.opened(store, broker={"name": "b"}, context={"size": "3", **context}, secrets=BOX)


def reopened(system: SystemConfig, store: BrokenStore, **context: str) -> SystemConfig:
    system.close()
    Thing.calls.clear()
    return open_system(store, **context)


def thing(system: SystemConfig, name: str = "one", **attributes: Any) -> Thing:
    made = system.broker.create_child("thing", {"name": name, **attributes}, by="me")
    assert isinstance(made, Thing)
    return made


# Creation and recovery


@pytest.mark.realises("BJ-LIFE-1", "BJ-MOD-1", "BJ-MOD-2")
def test_creation_goes_through_its_phases_on_the_configuration_thread(system: SystemConfig) -> None:
    made = thing(system)
    assert made.calls == ["one validate", "one create on broker", "one open on broker"]
    assert (made.state, made.parent, made.names) == (State.ACTIVE, system.broker, ("one",))
    assert system.broker.child("thing", "one") is made
    facts = made.facts()
    assert (facts["created_by"], facts["state"], facts["life_time"]) == ("me", "active", "permanent")
    with pytest.raises(ObjectExistsError, match="there is a thing 'one' already"):
        thing(system)


@pytest.mark.realises("BJ-CFG-3", "BJ-MOD-3")
def test_what_was_kept_is_recovered_without_being_created_again(system: SystemConfig, store: BrokenStore) -> None:
    made = thing(system, size=7, description="d")
    made.create_child("part", {"name": "p"})
    facts = made.facts()
    again = reopened(system, store)
    assert Thing.calls == ["one validate", "one open on broker", "p validate", "p open on broker"]
    found = again.broker.child("thing", "one")
    assert found.id == made.id
    assert found.attribute_values() == made.attribute_values()
    assert found.facts() == facts
    assert found.child_names("part") == ["p"]
    again.close()


@pytest.mark.parametrize("phase", ["create", "open"])
def test_an_object_whose_creation_fails_never_was_there(system: SystemConfig, store: BrokenStore, phase: str) -> None:
    Thing.fails.add(phase)
    with pytest.raises(ResourceError, match=f"{phase} was told to fail"):
        thing(system)
    assert system.broker.child_names("thing") == []
    assert len(store.kept) == 1
    Thing.fails.clear()
    assert thing(system).state is State.ACTIVE


def test_an_object_that_cannot_be_kept_is_not_created(system: SystemConfig, store: BrokenStore) -> None:
    store.is_full = True
    with pytest.raises(StoreError, match="the disk is full"):
        thing(system)
    assert system.broker.child_names("thing") == []
    assert Thing.calls[-2:] == ["one stop on broker", "one delete on broker"]


def test_invalid_attributes_create_nothing(system: SystemConfig) -> None:
    with pytest.raises(InvalidAttributesError, match="thing one: description: is bad"):
        thing(system, description="bad")
    with pytest.raises(InvalidAttributesError, match="thing one: size: there is no variable 'nothing'"):
        thing(system, size="${nothing}")
    with pytest.raises(InvalidAttributesError, match="friend: there is no thing 'two'; create it first"):
        thing(system, friend="two")
    with pytest.raises(InvalidAttributesError, match="name: is mandatory"):
        system.broker.create_child("thing", {})
    with pytest.raises(UnknownCategoryError, match="there is no thing of the type 'odd'; there are: 'plain'"):
        thing(system, type="odd")
    with pytest.raises(UnknownCategoryError, match="there is no queue below a broker; there is: key_store,"):
        system.broker.create_child("queue", {"name": "q"})
    with pytest.raises(UnknownCategoryError, match="there is no category 'moon'"):
        system.broker.create_child("moon", {})
    assert system.broker.child_names("thing") == []


def test_what_cannot_be_recovered_is_errored_and_the_rest_goes_on(system: SystemConfig, store: BrokenStore) -> None:
    made = thing(system, size="${wide}", context={"wide": "4"})
    made.create_child("part", {"name": "p"})
    thing(system, "two")
    thing(system, "three", size="${home}", context={"home": "1"})
    system.close()
    store.edit(made.id, {"name": "one", "size": "${wide}"}, source="line 7")
    again = reopened(system, store)
    one, two = again.broker.child("thing", "one"), again.broker.child("thing", "two")
    assert (one.state, two.state) == (State.ERRORED, State.ACTIVE)
    error = one.facts()["error"]
    assert error.startswith("line 7: thing one: size: there is no variable 'wide'")
    assert one.attribute_values() == {"name": "one", "size": "${wide}"}
    assert one.child_names("part") == [], "what is below it waits"
    with pytest.raises(WrongStateError, match="thing one is errored: line 7"):
        _ = one.attributes
    with pytest.raises(FailedOpeningError, match="thing one cannot be started"):
        one.invoke("start", {})
    one.set_attributes({"context": {"wide": "5"}})
    assert one.state is State.ERRORED
    one.invoke("start", {})
    assert (one.state, one.facts()["error"], one.attribute_values(["size"])) == (State.ACTIVE, None, {"size": 5})
    assert one.child_names("part") == ["p"]
    again.close()


def test_a_specialisation_that_is_not_installed_keeps_its_place(system: SystemConfig, store: BrokenStore) -> None:
    made = thing(system)
    system.close()
    store.edit(made.id, {**store.kept[made.id].attributes, "type": "plugged"})
    again = reopened(system, store)
    found = again.broker.child("thing", "one")
    assert found.state is State.ERRORED
    assert "no thing of the type 'plugged'" in found.facts()["error"]
    found.delete()
    assert made.id not in store.kept
    again.close()


# Context


@pytest.mark.realises("BJ-CTX-1", "BJ-CTX-2")
def test_variables_come_from_the_object_then_from_above_then_from_the_process(
    system: SystemConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYJMS_TEST_SIZE", "1")
    made = thing(system, size="${pyjms.test.size}")
    assert made.attribute_values(["size"]) == {"size": 1}
    assert thing(system, "two").attribute_values(["size"]) == {"size": 3}, "the system's context"
    system.broker.set_attributes({"context": {"size": "20", "pyjms.test.size": "2"}})
    assert thing(system, "three").attribute_values(["size"]) == {"size": 20}
    made.set_attributes({"context": {"pyjms.test.size": "7"}})
    assert made.attribute_values(["size"]) == {"size": 7}
    assert made.attribute_values(["size"], actual=True) == {"size": "${pyjms.test.size}"}
    assert thing(system, "7", size="${this:name}").attribute_values(["size"]) == {"size": 7}
    with pytest.raises(InvalidAttributesError, match="size: variables lead back to themselves: a → b → a"):
        made.set_attributes({"size": "${a}", "context": {"a": "${b}", "b": "${a}"}})


# Changes


def test_attributes_are_changed_all_or_none(system: SystemConfig, store: BrokenStore) -> None:
    made = thing(system)
    made.set_attributes({"size": "9", "description": "d"}, by="you")
    assert made.attribute_values(["size", "description"]) == {"size": 9, "description": "d"}
    assert made.facts()["updated_by"] == "you"
    made.set_attributes({"size": None})
    assert made.attribute_values(["size"]) == {"size": 3}, "None is the default again"
    before = made.snapshot
    with pytest.raises(InvalidAttributesError, match="size: should be greater than or equal to 0"):
        made.set_attributes({"description": "e", "size": -1})
    with pytest.raises(NotChangeableError, match="thing one: fixed cannot be changed; create another thing"):
        made.set_attributes({"description": "e", "fixed": "b"})
    made.set_attributes({"fixed": "a", "name": "one"})
    store.is_full = True
    with pytest.raises(StoreError):
        made.set_attributes({"description": "f"})
    assert made.attribute_values(["description"]) == {"description": "d"}
    assert Thing.calls[-2:] == ["one change on broker"] * 2, "it was obeyed, and taken back"
    Thing.fails.add("change")
    with pytest.raises(ResourceError, match="change was told to fail"):
        made.set_attributes({"description": "g"})
    assert made.snapshot.record.attributes == before.record.attributes


@pytest.mark.realises("BJ-ATT-3")
def test_secrets_are_stored_encrypted_and_never_shown(system: SystemConfig, store: BrokenStore) -> None:
    made = thing(system, secret="hunter2")
    assert "hunter2" not in str(store.kept)
    assert made.attribute_values(["secret"]) == made.attribute_values(["secret"], actual=True) == {"secret": MASK}
    made.set_attributes({"secret": MASK, "size": 1})
    assert isinstance(made.attributes, ThingAttributes)
    assert made.attributes.secret == Secret("hunter2"), "the mask leaves it as it is"
    thing(system, "two", secret="${password}", context={"password": "p"})
    assert "${password}" in str(store.kept), "a variable tells nothing"
    again = reopened(system, store)
    found = again.broker.child("thing", "one").attributes
    assert isinstance(found, ThingAttributes)
    assert found.secret == Secret("hunter2")
    again.close()


def test_a_secret_that_cannot_be_read_errs_its_object_alone(system: SystemConfig, store: BrokenStore) -> None:
    made, _ = thing(system, secret="hunter2"), thing(system, "two")
    system.close()
    other = SystemConfig.opened(store, context={"size": "3"}, secrets=SecretBox((b"z" * 32,)))
    found = other.broker.child("thing", "one")
    assert (found.state, other.broker.child("thing", "two").state) == (State.ERRORED, State.ACTIVE)
    assert "which is not in the key file" in found.facts()["error"]
    found.set_attributes({"secret": "new"})
    found.invoke("start", {})
    assert found.state is State.ACTIVE
    assert "hunter2" not in str(made.facts())
    other.close()


# Start, stop, delete


@pytest.mark.realises("BJ-LIFE-4")
def test_what_is_stopped_stays_so_until_it_is_started(system: SystemConfig, store: BrokenStore) -> None:
    made = thing(system)
    made.create_child("part", {"name": "p"})
    made.invoke("stop", {}, by="me")
    made.invoke("stop", {})
    assert (made.state, made.facts()["desired_state"]) == (State.STOPPED, "stopped")
    assert made.child_names("part") == []
    with pytest.raises(WrongStateError, match="thing one is stopped; start it, and create the part then"):
        made.create_child("part", {"name": "q"})
    again = reopened(system, store)
    found = again.broker.child("thing", "one")
    assert found.state is State.STOPPED
    found.invoke("start", {})
    found.invoke("start", {})
    assert (found.state, found.child_names("part")) == (State.ACTIVE, ["p"])
    again.close()
    with pytest.raises(ClosedError):
        found.set_attributes({"size": 1})


@pytest.mark.realises("BJ-LIFE-5")
def test_deleting_takes_all_below_with_it(system: SystemConfig, store: BrokenStore) -> None:
    made = thing(system)
    made.create_child("part", {"name": "p"})
    made.delete(by="me")
    assert Thing.calls[-4:] == [f"{name} {what} on broker" for name in ("p", "one") for what in ("stop", "delete")]
    assert (made.state, len(store.kept)) == (State.DELETED, 1)
    assert system.broker.find_child("thing", "one") is None
    for call in (made.delete, lambda: made.set_attributes({}), lambda: made.invoke("start", {})):
        with pytest.raises(UnknownObjectError, match="thing one has been deleted"):
            call()


def test_what_is_in_use_is_not_deleted(system: SystemConfig) -> None:
    made, user = thing(system), thing(system, "two", friend="one")
    with pytest.raises(ObjectInUseError, match="thing one is used by thing two; change that first"):
        made.delete()
    user.set_attributes({"friend": None})
    made.delete()
    assert system.broker.child_names("thing") == ["two"]


def test_what_cannot_be_deleted_stays_whole(system: SystemConfig, store: BrokenStore) -> None:
    made = thing(system)
    store.is_full = True
    with pytest.raises(StoreError):
        made.delete()
    assert made.state is State.ACTIVE
    store.is_full = False
    Thing.fails.add("stop")
    with pytest.raises(ResourceError, match="stop was told to fail"):
        made.delete()
    assert made.id in store.kept
    Thing.fails.clear()
    made.delete()


def test_what_cannot_be_kept_as_stopped_or_started_stays_as_it_is(system: SystemConfig, store: BrokenStore) -> None:
    made = thing(system)
    for refused, is_stopped in ((made.stop, False), (made.start, True)):
        store.is_full = True
        with pytest.raises(StoreError):
            refused()
        store.is_full = False
        assert made.state is (State.STOPPED if is_stopped else State.ACTIVE)
        made.set_attributes({"description": f"stopped: {is_stopped}"})
        assert store.kept[made.id].is_stopped is is_stopped
        made.stop()
    assert [call for call in Thing.calls if call.split()[1] in {"open", "stop"}][-2:] == [
        "one open on broker",
        "one stop on broker",
    ], "what was opened has been ended"


def test_what_is_not_durable_ends_with_the_broker(system: SystemConfig, store: BrokenStore) -> None:
    made = thing(system, durable=False)
    made.create_child("part", {"name": "p"})
    assert made.facts()["life_time"] == "process"
    made.set_attributes({"size": 1})
    assert len(store.kept) == 1
    made.delete()


# Threads


@pytest.mark.realises("BJ-THR-3", "BJ-THR-4")
def test_many_threads_change_and_observe_at_the_same_time(system: SystemConfig) -> None:
    made = thing(system)

    def change(number: int) -> None:
        made.set_attributes({"size": number, "description": str(number)})

    def observe(_: int) -> bool:
        values = made.attribute_values(["size", "description"])
        return values["description"] in {None, str(values["size"])}

    with ThreadPoolExecutor(8) as pool:
        changes = [pool.submit(change, number) for number in range(100)]
        seen = list(pool.map(observe, range(500), timeout=TIMEOUT_S))
        for each in changes:
            each.result(TIMEOUT_S)
    assert all(seen), "what belongs together is seen together"
    assert {each.rpartition(" ")[2] for each in Thing.calls if " on " in each} == {"broker"}


def test_of_many_that_create_the_same_one_does(system: SystemConfig) -> None:
    def create(_: int) -> bool:
        try:
            thing(system)
        except ObjectExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(40), timeout=TIMEOUT_S)) == 1


# Listeners


@pytest.mark.realises("BJ-LIFE-6")
def test_listeners_hear_what_was_changed(system: SystemConfig) -> None:
    near, far = Recorder(), Recorder()
    system.broker.add_listener(near)
    system.add_listener(far, below=True)
    made = thing(system, secret="s")
    made.set_attributes({"size": 1, "secret": "t"})
    made.invoke("stop", {})
    made.delete()
    system.broker.remove_listener(near)
    thing(system, "two")
    assert near.heard == [("added", "b", "one"), ("removed", "b", "one")]
    assert [each for each in far.heard if "two" not in each] == [
        ("state", "one", "uninitialized", "active"),
        ("added", "b", "one"),
        ("attributes", "one", "size"),
        ("state", "one", "active", "stopped"),
        ("state", "one", "stopped", "deleted"),
        ("removed", "b", "one"),
    ]


def test_a_listener_may_call_back_and_may_fail(system: SystemConfig, caplog: pytest.LogCaptureFixture) -> None:
    class Bad(Recorder):
        def child_added(self, parent: ManagedObject, child: ManagedObject) -> None:
            child.set_attributes({"description": "seen"})
            raise ValueError("oh")

    after = Recorder()
    system.broker.add_listener(Bad())
    system.broker.add_listener(after)
    assert thing(system).attribute_values(["description"]) == {"description": "seen"}
    assert after.heard == [("added", "b", "one")]
    assert "PYJMS-MODEL-4 a listener of broker b failed" in caplog.text


# Operations


def test_operations_are_called_with_plain_values(system: SystemConfig) -> None:
    made = thing(system)
    with pytest.raises(UnknownOperationError, match="thing one has no operation 'fly'; it has: start, stop"):
        made.invoke("fly", {})
    assert made.invoke("stop", {}) is None


def test_a_closed_broker_is_only_looked_at(system: SystemConfig) -> None:
    made = thing(system)
    system.close()
    system.close()
    assert (made.state, made.attribute_values(["size"])) == (State.CLOSED, {"size": 3})
    with pytest.raises(ClosedError):
        made.set_attributes({"size": 1})
    with pytest.raises(ClosedError):
        thing(system, "two")
