"""Objects that are configured: created, recovered, changed, stopped and deleted (Broker-J `AbstractConfiguredObject`).

*Threads.* Every change is made by the configuration thread of the nearest ancestor that has one; the public methods see to
that, and what they changed is published by one assignment.

*Creation* and *recovery* run the phases `CREATION` and `RECOVERY`. An object whose creation fails in any phase leaves no trace; one
whose recovery fails is ERRORED with the reason, and the other objects are opened.

*Subclasses* name their category and their attributes, and fill in the hooks, which run on the configuration thread:
`_validate`, `_on_create`, `_on_open`, `_on_change`, `_on_stop`, `_on_delete`.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from pyjms.spi.errors import ClosedError, ProviderError
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import MASK, Attributes, declarations, has_password, mask, resolve
from pyjms_provider.model.configuration.writer import StoreWriter
from pyjms_provider.model.errors import (
    FailedOpeningError,
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    ObjectInUseError,
    Problem,
    UnknownCategoryError,
    UnknownObjectError,
    WrongStateError,
)
from pyjms_provider.model.lookup import check_references, referrers
from pyjms_provider.model.managed import (
    CREATION,
    RECOVERY,
    ConfigurationChangeListener,
    Event,
    ManagedObject,
    Phase,
    State,
    next_state,
)
from pyjms_provider.model.operations import operation, statistic
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord

if TYPE_CHECKING:
    from pyjms_provider.model.contracts import Services
    from pyjms_provider.security.secrets import SecretBox
    from pyjms_provider.stores.configuration_contract import ConfigurationStore


_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_GONE: Final = (State.DELETED, State.CLOSED)


class ConfiguredObject(ManagedObject):
    """An object that was created by its parent, and lives until it is deleted, or its broker ends."""

    _failure_level = logging.ERROR
    """The log level of a failed opening."""

    @property
    def _above(self) -> ConfiguredObject:
        above = super()._above
        assert isinstance(above, ConfiguredObject), "what is configured stands below what is configured"
        return above

    @property
    def life_time(self) -> str:
        lasts = all(each.is_durable and each.keeps_for_good for each in self._ancestry())
        return "permanent" if lasts else "process"

    @property
    def keeps_for_good(self) -> bool:
        """Whether its store for the objects below it, if it has one, outlives the process."""
        return True

    @property
    def services(self) -> Services:
        """The services that the rest of the broker provides to the model."""
        return self._above.services

    def _below(self) -> list[ConfiguredObject]:
        """Return the children that are configured, in the order in which they are opened."""
        below = [each for each in self.children() if isinstance(each, ConfiguredObject)]
        # In the order of the tree's table: what others refer to is opened before what refers to it.
        return sorted(below, key=lambda each: tree.opening_order(each.category))

    # Changes; they run on the configuration thread

    def create_child(self, category: str, attributes: Mapping[str, Any], *, by: str = "") -> ManagedObject:
        self._check_below(category)
        return self.configuration_thread.call(lambda: self._create_child(category, dict(attributes), by))

    def set_attributes(self, changes: Mapping[str, Any], *, by: str = "") -> None:
        self.configuration_thread.call(lambda: self._set_attributes(dict(changes), by))

    def delete(self, *, by: str = "") -> None:
        # Its own thread, too, if it has one: an object that is created below it meanwhile
        # would stay in the store, without a parent.
        self._above.configuration_thread.call(lambda: self._begin_deletion(by))

    def close(self) -> None:
        # An object that fails to end must not keep the others open.
        with ExitStack() as ends:
            # Callbacks run in the opposite order, so the children are closed first.
            ends.callback(self._close_itself)
            for each in self._below():
                ends.callback(each.close)

    def _close_itself(self) -> None:
        if self.state not in _GONE:
            self._in_thread(lambda: self._end(Event.CLOSE))

    # Errors of the categories' own rules

    def _wrong(self, name: str, text: str) -> InvalidAttributesError:
        """Return the error for a wrong attribute; `name` '': for attributes that contradict each other."""
        return InvalidAttributesError(self.path, (Problem(name=name, text=text),))

    def _check_shown(self, name: str, url: str, password_name: str) -> None:
        """Refuse a URL that contains a password, as URLs are shown: it belongs into the attribute `password_name`. Raises `InvalidAttributesError`."""
        if has_password(url):
            raise self._wrong(name, f"holds a password, which would be seen; give it as {password_name}")

    # Hooks of the categories

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        """Check the category's own rules; `old` None: it is being opened. Raises `InvalidAttributesError`."""

    def _on_create(self) -> None:
        """Do the work of creation. If it raises, `_on_delete` undoes it."""

    def _on_open(self) -> None:
        """Begin to work. An implementation that raises must leave nothing behind."""

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        """Apply changed attributes while ACTIVE; called with the two exchanged when the change cannot be stored."""

    def _on_stop(self) -> None:
        """End the work that `_on_open` began, as the object is stopped, closed or deleted."""

    def _on_delete(self) -> None:
        """Undo the work of `_on_create`, as the object is deleted for good."""

    def _check_deletable(self) -> None:
        """Refuse to be deleted while in use. Raises `ObjectInUseError`."""

    # Creation and recovery

    def _create_child(self, category: str, attributes: dict[str, Any], by: str) -> ManagedObject:
        # Opening decides whether a new object may be kept, and below an object
        # that is not active nothing can be opened.
        if self.state is not State.ACTIVE:
            raise WrongStateError(f"{self.path} is {self.state.value}; start it, and create the {category} then")
        source = self.sources().get(category)
        if source is not None:
            return source.create(attributes, by)
        type_name, kind = _configured_class(category, attributes.get("type"))
        attributes["type"] = type_name
        now_ms = self.clock.time_ms()
        record = ObjectRecord(
            id=ObjectId(uuid4()),
            category=category,
            parent=self.id,
            attributes=attributes,
            created_by=by,
            created_ms=now_ms,
            updated_by=by,
            updated_ms=now_ms,
        )
        child = kind(self, record)
        child._create()
        return child

    def _create(self) -> None:
        done: list[Phase] = []
        try:
            for phase in CREATION:
                self._run_phase(phase)
                done.append(phase)
            # Kept and ACTIVE in one step of its own thread: a child made in between would be written before its parent.
            self._in_thread(self._begin)
        except Exception:
            self._undo_creation(done)
            raise
        self.tell(self._above, lambda listener: listener.child_added(self._above, self))

    def _begin(self) -> None:
        """Store a new object, then make it ACTIVE, so that nothing is created below it before it is stored. On its own thread."""
        # The object may have been closed since its creation began.
        next_state(self.state, Event.OPEN, self.path)
        self._write(lambda writer: writer.child_added(self._above, self))
        self._activate()

    def _activate(self) -> None:
        """Become ACTIVE, and open the pending objects below. On its own thread, as others may create objects below from then on."""
        self._step(Event.OPEN)
        self._open_pending()

    def _undo_creation(self, done: Sequence[Phase]) -> None:
        """Remove all traces of an object whose creation failed."""
        if self.state in _GONE:  # it was closed meanwhile
            self._above._unregister(self)
            return
        try:
            for each in reversed(self._below()):
                each.close()
            if Phase.ON_OPEN in done:
                self._in_thread(self._on_stop)
            if Phase.REGISTER in done:
                self._in_thread(self._on_delete)
        except ProviderError:
            _log.exception("PYJMS-MODEL-1 what was left of %s could not be removed", self.path)
        finally:
            self._above._unregister(self)
            # Another thread may be closing it at this moment.
            with suppress(WrongStateError):
                self._step(Event.DELETE)

    def open_child(self, record: ObjectRecord, below: Sequence[ObjectRecord]) -> ManagedObject:
        """Recover an object from a record of a configuration store, with those below it; on the configuration thread.

        Never raises for a faulty object, which becomes ERRORED.
        """
        failure: ProviderError | None = None
        try:
            _, kind = _configured_class(record.category, record.attributes.get("type"))
        except UnknownCategoryError as error:
            kind, failure = _unknown_kind(record.category), error
        child = kind(self, record)
        # Kept with the object also when it is ERRORED: its children must not be lost from the configuration.
        child.pending = tuple(below)
        self._register(child)
        child._recover(failure)
        return child

    # Objects that the broker's work makes; on the configuration thread of the parent

    def appear(self) -> None:
        """Add it to its parent and open it; nothing is stored. Never raises for a faulty object, which becomes ERRORED."""
        self._above._register(self)
        self._recover(None)
        self.tell(self._above, lambda listener: listener.child_added(self._above, self))

    def follow(self, attributes: Mapping[str, Any]) -> None:
        """Take other actual attributes, which its source is known to have checked."""
        before = self.snapshot.record.attributes
        self._publish(record=replace(self.snapshot.record, attributes=attributes))
        self._resolve()
        old, new = mask(self.attributes_class, before), mask(self.attributes_class, attributes)
        self.tell(self, lambda listener: listener.attributes_changed(self, old, new))

    def disappear(self) -> None:
        """Close it, and take it out of the tree."""
        try:
            self.close()
        finally:
            self._above._unregister(self)
        self.tell(self._above, lambda listener: listener.child_removed(self._above, self))

    def _recover(self, failure: ProviderError | None) -> None:
        try:
            if failure is not None:
                raise failure
            for phase in RECOVERY[:-1]:
                self._run_phase(phase)
            # Checked, but not opened: a stopped object shows its errors before it is started.
            if self.snapshot.record.is_stopped:
                self._step(Event.STOP)
                return
            self._run_phase(RECOVERY[-1])
        except (ProviderError, OSError) as error:
            self._fail(error)
            return
        self._in_thread(self._activate)

    def _fail(self, error: Exception, what: str = "could not be opened") -> None:
        """Become ERRORED; `what`: the failure, for the log."""
        reason = error.reason if isinstance(error, ProviderError) else str(error)
        source = self.snapshot.record.source
        self._publish(error=f"{source}: {reason}" if source else reason)
        _log.log(self._failure_level, "PYJMS-MODEL-2 %s %s: %s", self.path, what, self.snapshot.error)
        self._step(Event.FAIL)

    def _open_pending(self) -> None:
        """Open the pending objects below."""
        # Taken off first: a child that is opened may look at what still waits.
        waiting, self.pending = self.pending, ()
        for record in sorted(waiting, key=lambda each: tree.opening_order(each.category)):
            if record.parent == self.id:
                self.open_child(record, [each for each in waiting if each.parent != self.id])

    def _run_phase(self, phase: Phase) -> None:
        _PHASES[phase](self)

    def _resolve(self) -> None:
        record = self._revealed(self.snapshot.record)
        resolved = resolve(self.attributes_class, record.attributes, self.variable, self.path)
        self._publish(record=record, attributes=resolved)

    def _revealed(self, record: ObjectRecord) -> ObjectRecord:
        """Return a record with its secrets in clear. Raises `SecretError`."""
        writer = self._writer()
        return record if writer is None else writer.revealed(record)

    def _validate_opening(self) -> None:
        self._check(self.attributes, None)

    def _check(self, new: Attributes, old: Attributes | None) -> None:
        check_references(self, new)
        self._validate(new, old)

    def _register_with_parent(self) -> None:
        above = self._above
        siblings = above._children.get(self.category, {})
        if tree.shape_of(self.category).is_only_child and siblings:
            raise ObjectExistsError(f"{above.path} has its {self.category} already: {next(iter(siblings))}")
        if self.name in siblings:
            raise ObjectExistsError(f"there is a {self.category} {self.name!r} already; change it, or delete it first")
        above._register(self)

    def _register(self, child: ConfiguredObject) -> None:
        # A new dictionary: readers iterate over the old one without a lock.
        siblings = {**self._children.get(child.category, {}), child.name: child}
        self._children = {**self._children, child.category: siblings}

    def _unregister(self, child: ConfiguredObject) -> None:
        # By identity: another object may have the name by now.
        siblings = {name: each for name, each in self._children.get(child.category, {}).items() if each is not child}
        self._children = {**self._children, child.category: siblings}

    def _in_thread(self, job: Callable[[], _T]) -> _T:
        """Run a hook on the right thread: that of a virtual host for one, the present thread for all others."""
        return self.configuration_thread.call(job, however_long=True)

    # Change and end

    def _set_attributes(self, changes: dict[str, Any], by: str) -> None:
        self._check_there()
        before = self.snapshot
        # In clear for the checks and hooks; the store's writer encrypts secrets again.
        record = self._revealed(replace(before.record, attributes=self._changed(changes)))
        actual = record.attributes
        new = resolve(self.attributes_class, actual, partial(self._variable, own=actual.get("context")), self.path)
        self._check(new, before.attributes)
        if "context" in changes:
            self._check_those_below(actual.get("context"))
        updated = replace(record, updated_by=by, updated_ms=self.clock.time_ms())
        is_obeyed = before.state is State.ACTIVE and before.attributes is not None
        if is_obeyed:
            assert before.attributes is not None
            # Applied first: a change that fails must not be stored. Then published,
            # as the writer of the store reads the snapshot.
            self._on_change(before.attributes, new)
        self._publish(record=updated, attributes=new)
        try:
            self._write(lambda writer: writer.attributes_changed(self, before.record.attributes, actual))
        except Exception:
            self._publish(record=before.record, attributes=before.attributes)
            if is_obeyed:
                assert before.attributes is not None
                self._on_change(new, before.attributes)
            raise
        kind = self.attributes_class
        # Listeners are other people's code, and must not see secrets.
        old_masked, new_masked = mask(kind, before.record.attributes), mask(kind, actual)
        self.tell(self, lambda listener: listener.attributes_changed(self, old_masked, new_masked))

    def _check_those_below(self, context: Any) -> None:
        """Refuse a change of the context after which an object below could not be opened again. Raises `InvalidAttributesError`."""
        problems: list[Problem] = []
        for each in self._subtree():
            if each is self or each.snapshot.attributes is None:
                continue
            try:
                resolve(
                    each.attributes_class, each.snapshot.record.attributes, partial(self._seen_from, each, context), ""
                )
            except InvalidAttributesError as error:
                problems += [
                    Problem(name="context", text=f"{each.path} needs it: {problem}") for problem in error.problems
                ]
        if problems:
            raise InvalidAttributesError(self.path, tuple(problems))

    def _seen_from(self, below: ConfiguredObject, context: Any, name: str) -> str | None:
        """Return a variable as an object below would see it, if `context` were the context of this object."""
        if name == "this:name":
            return below.name
        if name == "this:id":
            return str(below.id)
        each = below
        while each is not self:
            own = each.snapshot.record.attributes.get("context")
            if isinstance(own, Mapping) and isinstance(own.get(name), str):
                return str(own[name])
            each = each._above
        return self._variable(name, context)

    def _changed(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the actual attributes with `changes` applied. Raises `NotChangeableError`."""
        known = declarations(self.attributes_class)
        actual = dict(self.snapshot.record.attributes)
        for name, value in changes.items():
            declared = known.get(name)
            # A form sends back what it was shown; a mask must not become the password.
            if declared is not None and declared.is_secure and value == MASK:
                continue
            if declared is not None and not declared.is_mutable:
                if value != actual.get(name, declared.default):
                    raise NotChangeableError(f"{self.path}: {name} cannot be changed; create another {self.category}")
            elif value is None:
                actual.pop(name, None)
            else:
                actual[name] = value
        return actual

    def _begin_deletion(self, by: str) -> None:
        # Before the call: the thread of a deleted virtual host has ended, and would only answer that it is closed.
        self._check_there()
        self._in_thread(lambda: self._delete(by))

    def _delete(self, by: str) -> None:
        self._check_there()
        subtree = list(self._subtree())
        for each in subtree:
            # All checks come before the first step, as a deletion cannot be undone half way.
            users = [user.path for user in referrers(each) if user not in subtree]
            if users:
                raise ObjectInUseError(f"{each.path} is used by {', '.join(users)}; change that first")
            each._in_thread(each._check_deletable)
        above = self._above
        # Removed from the store first: an object that a crash leaves half deleted must not be recovered.
        self._write(lambda writer: writer.child_removed(above, self))
        try:
            for each in reversed(subtree):
                # Children first: while they end they may use what is above them.
                each._in_thread(each._end_for_good)
        except Exception:
            self._write(lambda writer: writer.child_added(above, self))
            raise
        above._unregister(self)
        _log.info("PYJMS-MODEL-3 %s was deleted by %s", self.path, by or "the broker")
        self.tell(above, lambda listener: listener.child_removed(above, self))

    def _subtree(self) -> Iterator[ConfiguredObject]:
        """Yield the object and all configured objects below it, parents first."""
        yield self
        for each in self._below():
            yield from each._subtree()

    def _end_for_good(self) -> None:
        # Only an active object has begun something that `_on_stop` could end.
        if self.state is State.ACTIVE:
            self._on_stop()
        self._on_delete()
        self._step(Event.DELETE)

    def _end(self, event: Event) -> None:
        try:
            if self.state is State.ACTIVE:
                self._on_stop()
        finally:
            self._step(event)

    def _check_there(self) -> None:
        if self.state is State.DELETED:
            raise UnknownObjectError(f"{self.path} has been deleted")
        if self.state is State.CLOSED:
            raise ClosedError(f"{self.path} is closed: the broker has ended")

    # For those that can be started, and stopped

    def _start(self, by: str) -> None:
        self._check_there()
        if self.state is State.ACTIVE:
            return
        try:
            for phase in RECOVERY:
                self._run_phase(phase)
        except (ProviderError, OSError) as error:
            self._fail(error)
            raise FailedOpeningError(f"{self.path} cannot be started: {self.snapshot.error}") from error
        try:
            # After the opening: an object that cannot be opened stays stopped at the next start, too.
            self._set_stopped(stopped=False, by=by)
        except Exception:
            self._in_thread(self._on_stop)
            raise
        self._step(Event.START)
        self._open_pending()

    def _set_stopped(self, *, stopped: bool, by: str) -> None:
        before = self.snapshot.record
        if before.is_stopped is stopped:
            return
        self._publish(record=replace(before, is_stopped=stopped, updated_by=by, updated_ms=self.clock.time_ms()))
        try:
            self._write(lambda writer: writer.attributes_changed(self, before.attributes, before.attributes))
        except Exception:
            # Published again, as the next change would otherwise store the refused value.
            self._publish(record=before)
            raise

    # Publication and listeners

    def _publish(self, **changes: Any) -> None:
        """Publish a changed snapshot to all threads."""
        # One assignment, so that readers take no lock: they see the whole change or none of it.
        self._snapshot = replace(self._snapshot, **changes)

    def _step(self, event: Event) -> None:
        old = self._snapshot.state
        new = next_state(old, event, self.path)
        error = self._snapshot.error if new is State.ERRORED else None
        self._publish(state=new, error=error)
        if old is not new:
            self.tell(self, lambda listener: listener.state_changed(self, old, new))

    @property
    def store_writer(self) -> StoreWriter | None:
        """The writer of the configuration of the objects below; None: there is none, or an ancestor has it."""
        return None

    def _writer(self) -> StoreWriter | None:
        for above in self._ancestry():
            # A node's own record is kept by the store above it, not by the one that it opens.
            if above is not self and tree.shape_of(above.category).manages_children:
                return above.store_writer
        return None

    def _write(self, tell: Callable[[StoreWriter], None]) -> None:
        """Store a change, if the object is durable. Raises the store's errors."""
        writer = self._writer()
        # Below an object that is not durable nothing is stored: it would have no parent at the next start.
        if writer is not None and all(each.is_durable for each in self._ancestry()):
            tell(writer)

    def _ancestry(self) -> Iterator[ConfiguredObject]:
        """Yield the object and all its ancestors, the root last."""
        each: ConfiguredObject = self
        yield each
        while each.parent is not None:
            each = each._above
            yield each

    def tell(self, about: ManagedObject, tell: Callable[[ConfigurationChangeListener], None]) -> None:
        """Notify the listeners of an object, and those of its ancestors that listen to all objects below them."""
        above = about._ancestry() if isinstance(about, ConfiguredObject) else (about, *self._ancestry())
        for each in above:
            for listener, hears_below in each._listeners:
                if each is not about and not hears_below:
                    continue
                try:
                    tell(listener)
                except Exception:
                    # Other people's code: the change was made, and the other listeners must still be notified.
                    _log.exception("PYJMS-MODEL-4 a listener of %s failed", each.path)


_PHASES: Final[Mapping[Phase, Callable[[ConfiguredObject], Any]]] = {
    Phase.RESOLVE: lambda managed: managed._resolve(),
    Phase.VALIDATE: lambda managed: managed._validate_opening(),
    Phase.REGISTER: lambda managed: managed._register_with_parent(),
    Phase.ON_CREATE: lambda managed: managed._in_thread(managed._on_create),
    Phase.ON_OPEN: lambda managed: managed._in_thread(managed._on_open),
}


def _unknown_kind(category: str) -> type[ConfiguredObject]:
    """Return a stand-in for the class of a specialisation that is not installed: the object keeps its place, ERRORED."""
    return type("UnknownKind", (ConfiguredObject,), {"category": category})


def _configured_class(category: str, type_name: Any) -> tuple[str, type[ConfiguredObject]]:
    """Return the type and the class of an object that is to be configured. Raises `UnknownCategoryError`, `NotChangeableError`."""
    found, kind = tree.class_of(category, None if type_name is None else str(type_name))
    if not issubclass(kind, ConfiguredObject):
        raise NotChangeableError(f"a {category} cannot be created; it comes by itself")
    return found, kind


class Startable(ConfiguredObject):
    """An object that can be opened again after it was stopped, or could not be opened."""

    @operation("Open it: after the cause of an error was removed, or after it was stopped.")
    def start(self, *, by: str = "") -> None:
        """Open it. May be repeated. Raises `FailedOpeningError`: it is ERRORED then."""
        self.configuration_thread.call(lambda: self._start(by))


class Stoppable(ConfiguredObject):
    """A startable object that an operator can stop, too."""

    @operation("Open it: after the cause of an error was removed, or after it was stopped.")
    def start(self, *, by: str = "") -> None:
        """Open it. May be repeated. Raises `FailedOpeningError`: it is ERRORED then."""
        self.configuration_thread.call(lambda: self._start(by))

    @operation("Stop it; it stays stopped, also when the broker starts again, until it is started.")
    def stop(self, *, by: str = "") -> None:
        """Stop it. May be repeated. Raises `WrongStateError`."""
        self.configuration_thread.call(lambda: self._stop(by))

    def _stop(self, by: str) -> None:
        self._check_there()
        new = next_state(self.state, Event.STOP, self.path)
        # Written first: after a crash in between, the object must not start by itself.
        self._set_stopped(stopped=True, by=by)
        if new is not self.state:
            try:
                self._put_children_away()
            finally:
                self._end(Event.STOP)

    def follow_leaders(self) -> None:
        """Run where the cluster of its virtual host wants it; on its configuration thread. Called when leaders have changed, and raises nothing."""

    def _put_children_away(self) -> None:
        """Close all objects below; durable ones are opened again with it."""
        below = [each for each in self._subtree() if each is not self]
        waiting = [record for each in below for record in (each.snapshot.record, *each.pending) if each.is_durable]
        # Before the children are closed, so that one that fails to close is opened again with the others.
        self.pending = tuple(waiting)
        # An object that fails to end must not keep the others here.
        with ExitStack() as ends:
            for each in self._below():
                ends.callback(self._unregister, each)
                ends.callback(each.close)


class ManagingObject(Stoppable):
    """An object with a configuration store: opened with it, it recovers the objects there, and every change below is written through."""

    _store: ConfigurationStore | None = None
    _store_writer: StoreWriter | None = None

    @abstractmethod
    def _make_store(self) -> tuple[ConfigurationStore, SecretBox | None]:
        """Return its store, not yet open, and the box that encrypts secrets there; None: the store is not persistent."""

    @property
    def store_writer(self) -> StoreWriter | None:
        return self._store_writer

    @property
    def keeps_for_good(self) -> bool:
        return self._store is None or self._store.is_lasting

    @statistic("Where the configuration of what is below it is kept.")
    def configuration_store(self) -> str:
        return "" if self._store is None else self._store.where

    @property
    def _holder(self) -> str:
        """The name of the broker, for another process that finds the store locked. Objects above the broker do not know it yet."""
        above: ManagedObject | None = self
        while above is not None and above.category != "broker":
            above = above.parent
        return "broker" if above is None else above.name

    def _on_open(self) -> None:
        store, secrets = self._make_store()
        try:
            records = store.open(self._holder)
        except ProviderError:
            # A file or database that was opened half way stays locked, and would block the next attempt.
            store.close()
            raise
        self._store, self._store_writer = store, StoreWriter(self, store, secrets)
        # The top of a node's file has no parent there, so that the file can be moved to another node.
        self.pending = tuple(replace(each, parent=self.id) if each.parent is None else each for each in records)

    def _on_stop(self) -> None:
        store, self._store, self._store_writer = self._store, None, None
        if store is not None:
            store.close()
