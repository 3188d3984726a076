"""The part of all objects of the tree that readers use: names, life cycle, attributes, statistics, children.

Any thread may read at any time: readers use one immutable `Snapshot`, or an immutable table of children,
each replaced by one assignment. Objects that are configured, and can be changed, are `configured.ConfiguredObject`;
those that are observed refuse to be changed here. Children that are observed come from a `ChildSource`: they are made on
demand, and cheap to list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID, uuid5

from pyjms_provider.core.message.trace_events import ACTING
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import Attributes, interpolate, mask, plain, process_variable
from pyjms_provider.model.errors import (
    NotChangeableError,
    UnknownCategoryError,
    UnknownObjectError,
    UnknownOperationError,
    WrongStateError,
)
from pyjms_provider.model.operations import EVERYTHING, NO_PROGRESS, Permissions, Progress, operations_of, statistics_of
from pyjms_provider.security.contracts import Target, TargetKind
from pyjms_provider.stores.configuration_contract import ObjectId

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.model.configuration_thread import ConfigurationThread
    from pyjms_provider.stores.configuration_contract import ObjectRecord


class State(Enum):
    """The state of an object in its life cycle."""

    UNINITIALIZED = "uninitialized"
    """It is being created or recovered."""
    ACTIVE = "active"
    STOPPED = "stopped"
    """An operator has stopped it; it stays so after a restart."""
    ERRORED = "errored"
    """It could not be opened; its error says why, and the rest of the broker goes on."""
    CLOSED = "closed"
    """The broker has ended; durable objects are recovered at its next start."""
    DELETED = "deleted"

    __hash__ = object.__hash__


class Event(Enum):
    """An event in the life cycle of an object."""

    OPEN = "open"
    """It was opened."""
    START = "start"
    STOP = "stop"
    FAIL = "fail"
    """It could not be opened or started."""
    CLOSE = "close"
    DELETE = "delete"

    __hash__ = object.__hash__


class Phase(Enum):
    """One step of opening an object."""

    RESOLVE = "resolve"
    """Variables are replaced and values converted."""
    VALIDATE = "validate"
    """The category's own rules are checked."""
    REGISTER = "register"
    """The object is added to its parent."""
    ON_CREATE = "on_create"
    """The work done once in its life."""
    ON_OPEN = "on_open"
    """The work done each time the broker starts."""

    __hash__ = object.__hash__


CREATION: Final = (Phase.RESOLVE, Phase.VALIDATE, Phase.REGISTER, Phase.ON_CREATE, Phase.ON_OPEN)
"""The phases of an object that is new."""
RECOVERY: Final = (Phase.RESOLVE, Phase.VALIDATE, Phase.ON_OPEN)
"""The phases of one that was found in a configuration store: its parent knows it from the store."""

TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.UNINITIALIZED, Event.OPEN): State.ACTIVE,
    (State.UNINITIALIZED, Event.STOP): State.STOPPED,  # recovered, and it had been stopped
    (State.UNINITIALIZED, Event.FAIL): State.ERRORED,
    (State.UNINITIALIZED, Event.DELETE): State.DELETED,  # its creation failed
    (State.UNINITIALIZED, Event.CLOSE): State.CLOSED,
    (State.ACTIVE, Event.START): State.ACTIVE,
    (State.ACTIVE, Event.STOP): State.STOPPED,
    (State.ACTIVE, Event.FAIL): State.ERRORED,
    (State.ACTIVE, Event.CLOSE): State.CLOSED,
    (State.ACTIVE, Event.DELETE): State.DELETED,
    (State.STOPPED, Event.START): State.ACTIVE,
    (State.STOPPED, Event.STOP): State.STOPPED,
    (State.STOPPED, Event.FAIL): State.ERRORED,
    (State.STOPPED, Event.CLOSE): State.CLOSED,
    (State.STOPPED, Event.DELETE): State.DELETED,
    (State.ERRORED, Event.START): State.ACTIVE,
    (State.ERRORED, Event.STOP): State.STOPPED,
    (State.ERRORED, Event.FAIL): State.ERRORED,
    (State.ERRORED, Event.CLOSE): State.CLOSED,
    (State.ERRORED, Event.DELETE): State.DELETED,
    (State.CLOSED, Event.CLOSE): State.CLOSED,
}
"""All other transitions are errors: nothing leaves DELETED, and a closed object is only opened again with its broker."""


def next_state(state: State, event: Event, what: str = "the object") -> State:
    """Return the state that follows; `what` names the object in the error. Raises `WrongStateError`."""
    try:
        # A missing pair is an error and never ignored: it shows a mistake in the order of events.
        return TRANSITIONS[state, event]
    except KeyError:
        raise WrongStateError(f"{what} is {state.value}: it cannot {event.value} now") from None


class ConfigurationChangeListener:
    """Is notified of changes, on the configuration thread that made them, after they were published, with no lock held.

    It should be quick. Its errors are logged and change nothing, except those of the writer of a configuration store:
    they undo the change.
    """

    def state_changed(self, managed: ManagedObject, old: State, new: State) -> None:
        """Handle a change of an object's state."""

    def attributes_changed(self, managed: ManagedObject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Handle a change of actual attributes; secrets are masked."""

    def child_added(self, parent: ManagedObject, child: ManagedObject) -> None:
        """Handle the creation of an object."""

    def child_removed(self, parent: ManagedObject, child: ManagedObject) -> None:
        """Handle the deletion of an object, with all below it."""


_NO_CHILDREN: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The observable state of an object at one moment."""

    state: State
    record: ObjectRecord
    """The record with the actual attributes, secrets in clear: for the model itself."""
    attributes: Attributes | None
    """The effective attributes; None while they are unknown."""
    error: str | None = None
    """Why the object is ERRORED."""


class ManagedObject:
    """One object of the tree."""

    category: ClassVar[str]
    is_shown_elsewhere: bool = False
    """Whether what is below it is below another object, too, which lists of the whole broker show."""
    attributes_class: ClassVar[type[Attributes]] = Attributes

    def __init__(self, parent: ManagedObject | None, record: ObjectRecord) -> None:
        """Make an object that is not yet in the tree; the caller opens it."""
        self.parent = parent
        self.id = record.id
        self.name = record.name
        self._snapshot = Snapshot(state=State.UNINITIALIZED, record=record, attributes=None)
        self._children: Mapping[str, Mapping[str, ManagedObject]] = _NO_CHILDREN
        self._listeners: tuple[tuple[ConfigurationChangeListener, bool], ...] = ()
        self.pending: tuple[ObjectRecord, ...] = ()
        """The stored records of objects below it that are opened after it."""

    def __repr__(self) -> str:
        return f"<{self.category} {self.path} {self.state.value}>"

    # Its state; any thread

    @property
    def snapshot(self) -> Snapshot:
        """Its present snapshot: read it once for values that belong together."""
        return self._snapshot

    @property
    def state(self) -> State:
        """Its state in the life cycle."""
        return self.snapshot.state

    @property
    def type(self) -> str:
        """The specialisation of its category; empty if that has none."""
        return str(self.snapshot.record.attributes.get("type", ""))

    @property
    def is_durable(self) -> bool:
        """Whether it survives a restart of the broker."""
        return self.snapshot.record.attributes.get("durable", True) is not False

    @property
    def root(self) -> ManagedObject:
        """The system configuration."""
        return self if self.parent is None else self.parent.root

    @property
    def names(self) -> tuple[str, ...]:
        """The names from below the broker down to this object: its address in its category."""
        if self.parent is None or self.category == "broker":
            return ()
        return (*self.parent.names, self.name)

    @property
    def path(self) -> str:
        """Category and names, for display: ``queue default/shop/orders``."""
        return f"{self.category} {'/'.join(self.names) or self.name}"

    @property
    def clock(self) -> Clock:
        """The clock."""
        return self._above.clock

    @property
    def configuration_thread(self) -> ConfigurationThread:
        """The thread that makes changes to this object."""
        return self._above.configuration_thread

    @property
    def _above(self) -> ManagedObject:
        if self.parent is None:
            raise UnknownObjectError(f"{self.path} has nothing above it")
        return self.parent

    def target(self) -> Target:
        """Return its target for access policies."""
        return Target(kind=TargetKind.MANAGED, name="/".join(("broker", self.category, *self.names)))

    def facts(self) -> dict[str, Any]:
        """Return the fields that are neither attributes nor statistics, as JSON."""
        seen = self.snapshot
        record = seen.record
        return {
            "id": str(self.id),
            "category": self.category,
            "state": seen.state.value,
            "desired_state": (State.STOPPED if record.is_stopped else State.ACTIVE).value,
            "error": seen.error,
            "life_time": self.life_time,
            "created_by": record.created_by or None,
            # 0 stands for unknown, as of a queue that was created by first use.
            "created_at_ms": record.created_ms or None,
            "updated_by": record.updated_by or None,
            "updated_at_ms": record.updated_ms or None,
        }

    @property
    def revision_seen(self) -> int | None:
        """A revision that distinguishes its versions in addition to its configuration; None: its configuration suffices."""
        return None

    @property
    def life_time(self) -> str:
        """Its life time: ``permanent``; ``process``, until the broker ends; ``observed``, as its clients decide."""
        return "permanent" if self.is_durable else "process"

    @property
    def attributes(self) -> Attributes:
        """The effective attributes. Raises `WrongStateError` while they are unknown."""
        found = self.snapshot.attributes
        if found is None:
            raise WrongStateError(f"{self.path} is {self.state.value}: {self.snapshot.error or 'it is not open yet'}")
        return found

    def attribute_values(self, names: Sequence[str] | None = None, *, actual: bool = False) -> dict[str, Any]:
        """Return attributes as JSON, secrets masked; `names` None: all.

        `actual`: only the given ones, with their variables; otherwise the effective ones, as far as known.
        """
        # Read once: a second read might return another version of the object.
        seen = self.snapshot
        if actual or seen.attributes is None:
            # An object in error has no effective attributes, so the given ones are shown.
            return mask(self.attributes_class, seen.record.attributes, names)
        kind = type(seen.attributes)
        return {
            name: plain(getattr(seen.attributes, name)) for name in kind.model_fields if names is None or name in names
        }

    def statistic_values(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """Return statistics as JSON; `names` None: all cheap ones."""
        return {
            name: plain(getattr(self, name))
            for name, each in statistics_of(type(self)).items()
            if (not each.is_costly if names is None else name in names)
        }

    def variable(self, name: str) -> str | None:
        """Return the value of a context variable here: its own, or from above, or from the process's environment.

        ``this:name`` and ``this:id`` are the object's own name and id.
        """
        # The record's text and not the effective attribute: variables must work while the object is being resolved.
        return self._variable(name, self.snapshot.record.attributes.get("context"))

    def _variable(self, name: str, own: Any) -> str | None:
        """Return the value of a variable, with `own` as the object's context."""
        if name in {"this:name", "this:id"}:
            return self.name if name == "this:name" else str(self.id)
        if isinstance(own, Mapping) and isinstance(own.get(name), str):
            return str(own[name])
        # Only the root reads the environment: each context on the way up comes before it.
        return process_variable(name) if self.parent is None else self.parent.variable(name)

    def variable_below(self, name: str, below: str) -> str | None:
        """Return the value of a context variable for the object `below`, from the contexts here and above only.

        A user who may create or alter such an object need not have the right to read the environment. A context may take values
        from there all the same, as operators wrote it; so its own variables are replaced here, outside the object's control.
        Raises as `interpolate`.
        """
        each: ManagedObject | None = self
        while each is not None:
            own = each.snapshot.record.attributes.get("context")
            if isinstance(own, Mapping) and isinstance(own.get(name), str):
                found = interpolate(own[name], lambda other: below if other == "this:name" else self.variable(other))
                return found.replace("${", "$${")
            each = each.parent
        return None

    # Operations

    def invoke(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        by: str = "",
        progress: Progress = NO_PROGRESS,
        permissions: Permissions = EVERYTHING,
    ) -> Any:
        """Run an operation with plain arguments, and return its plain result. May wait; runs on the caller's thread.

        `permissions`: decides which other objects it may show; the caller has checked the rights on this one.

        Raises `UnknownOperationError`, `InvalidArgumentsError`, and what the operation raises.
        """
        known = operations_of(type(self))
        if name not in known:
            raise UnknownOperationError(f"{self.path} has no operation {name!r}; it has: {', '.join(known) or 'none'}")
        declared = known[name]
        read = declared.read_arguments(self.path, arguments)
        injected = {"by": by, "progress": progress, "permissions": permissions}
        # The message log names the operator who moved or deleted a message; the core knows no users.
        acting = ACTING.set(by)
        try:
            result = getattr(self, name)(**read, **{each: injected[each] for each in declared.injected})
        finally:
            ACTING.reset(acting)
        return declared.plain_result(result)

    # Children; any thread

    def sources(self) -> Mapping[str, ChildSource]:
        """Return the sources of children that are made on demand, by category."""
        return {}

    def child_names(self, category: str) -> Sequence[str]:
        """Return the names of the children of a category, sorted. Raises `UnknownCategoryError`."""
        self._check_below(category)
        source = self.sources().get(category)
        return sorted(self._children.get(category, ())) if source is None else source.names()

    def find_child(self, category: str, name: str) -> ManagedObject | None:
        """Return a child, None if there is none. Raises `UnknownCategoryError`."""
        self._check_below(category)
        source = self.sources().get(category)
        return self._children.get(category, {}).get(name) if source is None else source.find(name)

    def child(self, category: str, name: str) -> ManagedObject:
        """Return a child. Raises `UnknownObjectError`, `UnknownCategoryError`."""
        found = self.find_child(category, name)
        if found is None:
            raise UnknownObjectError(f"{self.path} has no {category} {name!r}")
        return found

    def children(self, category: str | None = None) -> Iterator[ManagedObject]:
        """Yield the children of a category, by name; None: all that are configured, not those that are observed."""
        if category is None:
            for registered in self._children.values():
                yield from registered.values()
            return
        for name in self.child_names(category):
            found = self.find_child(category, name)
            # A queue or connection may have ended since the names were read.
            if found is not None:
                yield found

    def _check_below(self, category: str) -> None:
        if tree.shape_of(category).parent != self.category:
            below = ", ".join(shape.category for shape in tree.children_of(self.category)) or "nothing"
            raise UnknownCategoryError(f"there is no {category} below a {self.category}; there is: {below}")

    def kept_below(self) -> Sequence[ObjectRecord]:
        """Return the records below it that are stored without an object yet: they are opened after it."""
        return self.pending

    # Changes; configured objects replace these

    def create_child(self, category: str, attributes: Mapping[str, Any], *, by: str = "") -> ManagedObject:
        """Create an object below this one: the only way into the tree. `attributes`: plain values; `by`: the user.

        Raises `InvalidAttributesError`, `ObjectExistsError`, `UnknownCategoryError`, `NotChangeableError`,
        `WrongStateError`, and what opening the object raises: then there is none.
        """
        self._check_below(category)
        raise NotChangeableError(f"{self.path}: a {category} cannot be created; it comes by itself")

    def set_attributes(self, changes: Mapping[str, Any], *, by: str = "") -> None:
        """Change attributes; None: the default again. All of them are changed, or none.

        Raises `InvalidAttributesError`, `NotChangeableError`, `WrongStateError`, and errors of applying the change.
        """
        raise NotChangeableError(f"{self.path} is observed, not configured: it has no attributes that can be set")

    def delete(self, *, by: str = "") -> None:
        """Delete it, with all below it, for good. Raises `ObjectInUseError`, `NotChangeableError`, `WrongStateError`."""
        raise NotChangeableError(f"{self.path} is observed, not configured: it cannot be deleted")

    def close(self) -> None:
        """Close it and all below it with the broker; durable objects are recovered at the next start. May be repeated."""

    def add_listener(self, listener: ConfigurationChangeListener, *, below: bool = False) -> None:
        """Notify a listener of changes of this object, and of children created or deleted; `below`: of all objects below it too."""
        self.configuration_thread.call(lambda: self._set_listeners((*self._listeners, (listener, below))))

    def remove_listener(self, listener: ConfigurationChangeListener) -> None:
        """Stop notifying a listener. May be repeated."""
        self.configuration_thread.call(
            lambda: self._set_listeners(tuple(each for each in self._listeners if each[0] is not listener))
        )

    def _set_listeners(self, listeners: tuple[tuple[ConfigurationChangeListener, bool], ...]) -> None:
        # A new tuple, as a thread may just be iterating over the old one.
        self._listeners = listeners


OFFSET_MAX: Final = 999_999_999
"""The largest offset of a page in a list of objects or messages: more than any list has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request for a page of children."""

    equal: Mapping[str, str]
    """The texts that fields must equal."""
    order: str
    """The field to sort by; with ``-`` before it: descending."""
    offset: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPage:
    """A page of children."""

    children: Sequence[ManagedObject]
    total: int
    """The number of all children that match."""


def observed_id(parent: ManagedObject, category: str, name: str) -> ObjectId:
    """Return the id of an observed object: always the same for the same name in the same place."""
    # Made from the name: each request makes views of its own, and a console must find the object again.
    return ObjectId(uuid5(parent.id, f"{category}/{name}"))


class ChildSource(ABC):
    """The children of one category of one object. Any thread."""

    @property
    @abstractmethod
    def category(self) -> str:
        """The category of the children."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names of the present children, sorted."""

    @abstractmethod
    def find(self, name: str) -> ManagedObject | None:
        """Return one of them; None: there is none."""

    def find_all(
        self, names: Sequence[str], fields: Sequence[str] | None, *, actual: bool
    ) -> Mapping[str, ManagedObject]:
        """Return those of some names, to be described by these fields at once; None: by all cheap ones; `actual`: as `describe` has it."""
        del fields, actual  # they matter where objects have to be asked for
        found = {name: self.find(name) for name in names}
        return {name: each for name, each in found.items() if each is not None}

    def has_column(self, field: str) -> bool:
        """Return whether `columns` supports that field: by default, every statistic of the category."""
        kinds = (tree.class_of(self.category, name)[1] for name in tree.types_of(self.category))
        return any(field in statistics_of(kind) for kind in kinds)

    def columns(self, fields: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return fields of all of them, by the name of the field and of the object, as JSON.

        Only fields that `has_column` accepts. Objects that no longer exist are left out.
        """
        found: dict[str, dict[str, Any]] = {field: {} for field in fields}
        for name in self.names():
            # It may have ended since the names were read.
            with suppress(UnknownObjectError):
                each = self.find(name)
                values = {} if each is None else each.statistic_values(tuple(fields))
                for field, value in values.items():
                    found[field][name] = value
        return found

    def targets(self) -> tuple[TargetKind, str] | None:
        """Return the kind and virtual host of their targets for access policies; None: they have to be asked one by one."""
        return None

    def common_target(self) -> Target | None:
        """Return the target that all of them share for access policies; None: they have different ones."""
        return None

    def page(self, wanted: PageRequest) -> ChildPage | None:
        """Return a page without reading the other children; None: not possible for this request.

        Only sources with a store that searches, and with a `common_target`, implement it.
        """
        return None

    def target(self, name: str) -> Target | None:
        """Return the target of one of them for access policies, without making it; None: make it and ask it."""
        common = self.targets()
        return self.common_target() if common is None else Target(kind=common[0], name=name, virtual_host=common[1])

    def find_id(self, parent: ManagedObject, wanted: UUID) -> ManagedObject | None:
        """Return the one with that id; None: there is none."""
        for name in self.names():
            # The id is computed from the name, so no object is made for those that do not match.
            if observed_id(parent, self.category, name) == wanted:
                return self.find(name)
        return None

    def create(self, attributes: Mapping[str, Any], by: str) -> ManagedObject:
        """Create one; on the configuration thread. Raises as `ManagedObject.create_child`."""
        raise NotChangeableError("objects of this category come by themselves; they cannot be created")
