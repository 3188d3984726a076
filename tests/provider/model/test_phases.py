"""The phases of creation and recovery, as an object of a plugged-in category goes through them."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from pyjms.spi.errors import ProviderError, ResourceError
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import Attributes, attribute
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.configuration.writer import MemoryConfigurationStore
from pyjms_provider.model.configured import Stoppable
from pyjms_provider.model.managed import State

Seen = tuple[str, bool, int]
"""A hook, whether the parent listed the object then, and the value of its attribute with a variable."""


class WitnessAttributes(Attributes):
    size: int = attribute("How big.", default="${size}", ge=0)


class Witness(Stoppable):
    """An object that records what holds in each phase, and fails in one."""

    category = "witness"
    attributes_class = WitnessAttributes
    seen: ClassVar[list[Seen]] = []
    fails: ClassVar[str] = ""

    def _note(self, hook: str, attributes: Attributes) -> None:
        assert isinstance(attributes, WitnessAttributes)
        assert self.parent is not None
        listed = self.parent.find_child(self.category, self.name)
        self.seen.append((hook, listed is self, attributes.size))
        if hook == self.fails:
            raise ResourceError(f"{hook} was told to fail")

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        self._note("validate", new)

    def _on_create(self) -> None:
        self._note("create", self.attributes)

    def _on_open(self) -> None:
        self._note("open", self.attributes)

    def _on_stop(self) -> None:
        self._note("stop", self.attributes)

    def _on_delete(self) -> None:
        self._note("delete", self.attributes)


class Store(MemoryConfigurationStore):
    is_lasting = True


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    shape = tree.CategoryShape(category="witness", parent="broker", summary="x", default_type="plain")
    monkeypatch.setattr(tree, "TREE", {**tree.TREE, "witness": shape})
    monkeypatch.setattr(tree, "_added", {"witness": {"plain": Witness}})
    monkeypatch.setattr(Witness, "seen", [])
    monkeypatch.setattr(Witness, "fails", "")
    return Store()


def opened(store: Store, size: str = "7") -> SystemConfig:
    return SystemConfig.opened(store, broker={"name": "b"}, context={"size": size})


def create(system: SystemConfig, **attributes: Any) -> Witness:
    made = system.broker.create_child("witness", {"name": "one", **attributes})
    assert isinstance(made, Witness)
    return made


@pytest.mark.realises("BJ-LIFE-2")
def test_a_new_object_is_resolved_validated_registered_created_and_opened(store: Store) -> None:
    system = opened(store)
    made = create(system)
    assert made.seen == [("validate", False, 7), ("create", True, 7), ("open", True, 7)]
    assert made.state is State.ACTIVE
    system.close()


@pytest.mark.realises("BJ-LIFE-2")
@pytest.mark.parametrize(
    ("fails", "attributes", "hooks"),
    [
        ("", {"size": "${nothing}"}, []),
        ("validate", {}, ["validate"]),
        ("", {"name": "there already"}, ["validate"]),
        ("create", {}, ["validate", "create", "delete"]),
        ("open", {}, ["validate", "create", "open", "delete"]),
    ],
    ids=["resolve", "validate", "register", "create", "open"],
)
def test_a_phase_of_creation_that_fails_is_the_last(
    store: Store, fails: str, attributes: dict[str, Any], hooks: list[str]
) -> None:
    system = opened(store)
    create(system, name="there already")
    Witness.seen.clear()
    Witness.fails = fails
    with pytest.raises(ProviderError):
        create(system, **attributes)
    assert [hook for hook, _, _ in Witness.seen] == hooks
    assert system.broker.child_names("witness") == ["there already"]
    Witness.fails = ""
    system.close()


def kept(store: Store) -> None:
    """Create an object, end its broker, and forget what was seen of it."""
    system = opened(store)
    create(system)
    system.close()
    Witness.seen.clear()


@pytest.mark.realises("BJ-LIFE-3")
def test_a_recovered_object_is_resolved_validated_and_opened(store: Store) -> None:
    kept(store)
    system = opened(store, size="8")
    assert Witness.seen == [("validate", True, 8), ("open", True, 8)]
    assert system.broker.child("witness", "one").state is State.ACTIVE
    system.close()


@pytest.mark.realises("BJ-LIFE-3")
@pytest.mark.parametrize(
    ("fails", "size", "hooks"),
    [("", "no number", []), ("validate", "7", ["validate"]), ("open", "7", ["validate", "open"])],
    ids=["resolve", "validate", "open"],
)
def test_a_phase_of_recovery_that_fails_is_the_last(store: Store, fails: str, size: str, hooks: list[str]) -> None:
    kept(store)
    Witness.fails = fails
    system = opened(store, size=size)
    assert [hook for hook, _, _ in Witness.seen] == hooks
    assert system.broker.child("witness", "one").state is State.ERRORED
    Witness.fails = ""
    system.close()
