"""The queues of a virtual host as managed objects.

The running host is the truth for queues: what there is, is there, and costs nothing here until somebody asks for it. Kept
beside are *records* of queues that an operator made or changed: who did it and when, a description, context variables, and
attributes as they were given. Where the host has a store of its own, that keeps a queue's policy; then a record goes into the
node's configuration only if it says more. Where the host is in memory, it always does.

Changes are made on the virtual host's configuration thread; the table of records is replaced, never changed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from pyjms.spi.errors import DestinationInUseError, InDoubtError, ProviderError
from pyjms_provider.core.queue.policy import QueuePolicy
from pyjms_provider.model.attributes import mask, plain, resolve
from pyjms_provider.model.children import ChildSource, observed_id
from pyjms_provider.model.configuration.contract import ObjectRecord
from pyjms_provider.model.errors import (
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    ObjectInUseError,
    Problem,
    UnknownObjectError,
)
from pyjms_provider.model.queue import ManagedQueue
from pyjms_provider.model.queue_attributes import (
    ALERT_FIELDS,
    POLICY_FIELDS,
    QueueAttributes,
    alert_choices,
    changed_fields,
    policy_of,
    told_of_attributes,
)
from pyjms_provider.model.queue_columns import KNOWN, queue_columns
from pyjms_provider.model.rates import Rates
from pyjms_provider.model.statistics import Statistic, statistics_of
from pyjms_provider.queue_manager import QueueExistsError, QueueManager, UnknownQueueError
from pyjms_provider.security.contracts import TargetKind
from pyjms_provider.watching.alerts import AlertLimits

if TYPE_CHECKING:
    from pyjms_provider.model.attributes import Attributes
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.model.virtual_host import VirtualHost
    from pyjms_provider.watching.alerts import Alert

__all__ = ["QueueSource"]

_log = logging.getLogger(__name__)
_FIXED: Final = ("name", "durable")


class QueueSource(ChildSource):
    """Of one virtual host."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host
        self._records: Mapping[str, ObjectRecord] = {}
        self._errors: Mapping[str, str] = {}
        self._own_alerts: Mapping[str, Mapping[str, int]] = {}
        self._host_alerts: tuple[Attributes | None, AlertLimits] = (None, AlertLimits())
        self.rates = Rates()
        self.made: WeakValueDictionary[str, ManagedQueue] = WeakValueDictionary()

    # Any thread

    @property
    def category(self) -> str:
        return "queue"

    @property
    def manager(self) -> QueueManager:
        """What does things with queues. Raises `WrongStateError` while the host does not run."""
        return QueueManager(self._host.embedded.virtual_host)

    def names(self) -> Sequence[str]:
        if not self._host.is_running:
            return sorted(self._records)
        found = self._host.embedded.virtual_host.queue_names()
        return found if not self._errors else sorted({*found, *self._errors})

    def find(self, name: str) -> ManagedQueue | None:
        if not self.is_there(name) and name not in self._errors:
            return None
        found = self.made.get(name)
        if found is None:
            # Whoever listens to a queue holds it, and finds the same one again.
            found = self.made[name] = ManagedQueue(self._host, self, name, observed_id(self._host, "queue", name))
        return found

    def has_column(self, field: str) -> bool:
        return field in KNOWN or field in statistics_of(ManagedQueue)

    def columns(self, fields: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return fields of all queues: much faster than asking them one by one."""
        others = {field: self._column(field) for field in fields if field not in KNOWN}
        return {**others, **queue_columns(self._host, KNOWN.intersection(fields))}

    def _column(self, statistic: str) -> Mapping[str, Any]:
        declared = vars(ManagedQueue)[statistic]
        assert isinstance(declared, Statistic)
        probe = ManagedQueue(self._host, self, "", self._host.id)
        found: dict[str, Any] = {}
        for probe.name in self.names():
            with suppress(UnknownObjectError):  # it is errored, or was deleted meanwhile
                found[probe.name] = plain(declared.compute(probe))
        return found

    def targets(self) -> tuple[TargetKind, str]:
        return TargetKind.QUEUE, self._host.name

    def is_there(self, name: str) -> bool:
        """Return whether the host has that queue."""
        return self._host.is_running and self._host.embedded.virtual_host.find_queue(name) is not None

    def policy(self, name: str) -> QueuePolicy:
        """Return what a queue obeys. Raises `UnknownObjectError`."""
        queue = self._host.embedded.virtual_host.find_queue(name) if self._host.is_running else None
        if queue is None:
            raise UnknownObjectError(f"{self._host.path} has no queue {name!r}")
        return queue.policy

    def names_in_error(self) -> Sequence[str]:
        """Return the queues that were kept and could not be made."""
        return list(self._errors)

    def error(self, name: str) -> str | None:
        """Return why a queue that was kept could not be made."""
        return self._errors.get(name)

    def kept_record(self, name: str) -> ObjectRecord | None:
        """Return the record of a queue, None if an operator has never made or changed it; the same one until that happens."""
        return self._records.get(name)

    def record(self, name: str) -> ObjectRecord:
        """Return what is known of a queue, with its actual attributes."""
        found = self._records.get(name)
        if found is None:
            actual = {"name": name, **(changed_fields(self.policy(name)) if self.is_there(name) else {})}
            return ObjectRecord(
                id=observed_id(self._host, "queue", name), category="queue", parent=self._host.id, attributes=actual
            )
        return found

    def alert_limits(self, name: str) -> AlertLimits:
        """Return from where on a queue has alerts: what it says itself, and else what its host says."""
        limits, own = self._alerts_of_host(), self._own_alerts.get(name)
        return limits if own is None else replace(limits, **own)

    def _alerts_of_host(self) -> AlertLimits:
        chosen = self._host.snapshot.attributes
        known, limits = self._host_alerts
        if chosen is not None and chosen is not known:
            limits = AlertLimits(**alert_choices(chosen))
            self._host_alerts = chosen, limits
        return limits

    def watched_for_alerts(self) -> frozenset[str] | None:
        """Return the queues that may have alerts; None: all."""
        if self._host.snapshot.attributes is None or not self._alerts_of_host().is_any:
            return frozenset(self._own_alerts)
        return None

    def alerts(self, name: str) -> tuple[Alert, ...]:
        """Return the alerts of a queue that hold now."""
        return self._host.watch.book.holding.get(name, ()) if self._host.is_running else ()

    # On the configuration thread

    def create(self, attributes: Mapping[str, Any], by: str) -> ManagedObject:
        """Do as `ChildSource`. `InDoubtError`: there is one, and all that was said of it is kept."""
        now_ms = self._host.clock.time_ms()
        name = str(attributes.get("name", ""))
        record = ObjectRecord(
            id=observed_id(self._host, "queue", name),
            category="queue",
            parent=self._host.id,
            attributes=dict(attributes),
            created_by=by,
            created_ms=now_ms,
            updated_by=by,
            updated_ms=now_ms,
        )
        policy = policy_of(self._resolve(record), f"queue {name}")
        if self._host.keeps_queues and not attributes.get("durable", True):
            told = Problem(
                name="durable", text="the virtual host has a store, which keeps all its queues; leave it out"
            )
            raise InvalidAttributesError(f"queue {name}", (told,))
        if name in self._errors:
            raise ObjectExistsError(
                f"there is a queue {name!r} already, which could not be made; change it, or delete it"
            )
        doubt: InDoubtError | None = None
        try:
            with told_of_attributes(f"queue {name}"):
                self.manager.create(name, policy)
        except QueueExistsError as error:
            raise ObjectExistsError(error.reason) from error
        except InDoubtError as error:  # it is there nevertheless
            doubt = error
        try:
            self._keep(name, record)
        except Exception:
            self.manager.destroy(name)
            raise
        made = self.find(name)
        assert made is not None, "it was made a moment ago"
        self._host.tell_child_added(made)
        if doubt is not None:
            raise doubt
        return made

    def change(self, name: str, changes: Mapping[str, Any], by: str) -> None:
        """Change attributes of a queue, all or none. Raises as `ManagedObject.set_attributes`."""
        before = self.record(name)
        actual = dict(before.attributes)
        for each, value in changes.items():
            if each in _FIXED and value != actual.get(each, True):
                raise NotChangeableError(f"queue {name}: {each} cannot be changed; create another queue")
            if value is None:
                actual.pop(each, None)
            else:
                actual[each] = value
        record = replace(before, attributes=actual, updated_by=by, updated_ms=self._host.clock.time_ms())
        policy = policy_of(self._resolve(record), f"queue {name}")
        if name in self._errors:
            self._revive(name, record, policy)
            return
        old = self.policy(name)
        self._obey(name, policy)
        try:
            self._keep(name, record)
        except Exception:
            self._obey(name, old)
            raise
        self._host.tell_attributes_changed(
            self._found(name), mask(QueueAttributes, before.attributes), mask(QueueAttributes, actual)
        )

    def _revive(self, name: str, record: ObjectRecord, policy: QueuePolicy) -> None:
        """Make a queue after all that could not be made."""
        with told_of_attributes(f"queue {name}"):
            self.manager.create(name, policy)
        self._keep(name, record)
        self._errors = {each: why for each, why in self._errors.items() if each != name}

    def _obey(self, name: str, policy: QueuePolicy) -> None:
        try:
            with told_of_attributes(f"queue {name}"):
                self.manager.alter(name, **{each: getattr(policy, each) for each in POLICY_FIELDS})
        except DestinationInUseError as error:
            raise ObjectInUseError(error.reason) from error

    def delete(self, name: str) -> None:
        """Delete a queue with its messages. Raises `ObjectInUseError`, `UnknownObjectError`; `InDoubtError`: it is gone nevertheless."""
        made = self._found(name)
        record = self._records.get(name)
        self._forget(name)
        if name in self._errors:
            self._errors = {each: why for each, why in self._errors.items() if each != name}
        try:
            if self.is_there(name):
                self.manager.destroy(name)
        except InDoubtError:  # it is gone nevertheless
            self._tell_gone(name, made)
            raise
        except (ProviderError, OSError) as error:
            if record is not None:
                self._keep(name, record)
            if isinstance(error, UnknownQueueError):
                raise UnknownObjectError(error.reason) from error
            if isinstance(error, DestinationInUseError):
                raise ObjectInUseError(error.reason) from error
            raise
        self._tell_gone(name, made)

    def _tell_gone(self, name: str, made: ManagedQueue) -> None:
        self.made.pop(name, None)
        self._host.tell_child_removed(made)

    def restore(self, records: Sequence[ObjectRecord]) -> None:
        """Have queues again that the node's configuration has kept; those that are wrong are ERRORED and tell why."""
        self._records = {**self._records, **{record.name: record for record in records}}
        errors: dict[str, str] = {}
        for record in records:
            try:
                self._restore(record)
            except ProviderError as error:
                why = f"{record.source}: {error.reason}" if record.source else error.reason
                errors[record.name] = why
                _log.error("PYJMS-MODEL-2 queue %s of %s could not be made: %s", record.name, self._host.path, why)
        self._errors = {**self._errors, **errors}

    def _restore(self, record: ObjectRecord) -> None:
        resolved = self._resolve(record)
        policy = policy_of(resolved, f"queue {record.name}")
        self._note_alerts(record.name, alert_choices(resolved))
        if not self.is_there(record.name):
            self.manager.create(record.name, policy)
        elif self.policy(record.name) != policy:
            self._obey(record.name, policy)

    def kept_records(self) -> list[ObjectRecord]:
        """Return the records that are in the node's configuration."""
        return [record for record in self._records.values() if self._must_be_kept(record)]

    def put_away(self) -> list[ObjectRecord]:
        """Return the records that a start needs again, and forget them."""
        kept = [record for record in self._records.values() if record.attributes.get("durable", True)]
        self._records, self._errors, self._own_alerts = {}, {}, {}
        self.made.clear()
        return kept

    def _found(self, name: str) -> ManagedQueue:
        found = self.find(name)
        if found is None:
            raise UnknownObjectError(f"{self._host.path} has no queue {name!r}")
        return found

    def _resolve(self, record: ObjectRecord) -> QueueAttributes:
        own = record.attributes.get("context")
        lookup = partial(self._variable, own, record)
        found = resolve(QueueAttributes, record.attributes, lookup, f"queue {record.name}")
        assert isinstance(found, QueueAttributes)
        return found

    def _variable(self, own: Any, record: ObjectRecord, name: str) -> str | None:
        if name == "this:name":
            return record.name
        if isinstance(own, Mapping) and isinstance(own.get(name), str):
            return str(own[name])
        return self._host.variable_below(name, record.name)

    def _keep(self, name: str, record: ObjectRecord) -> None:
        """Have a record kept, in the configuration too if it must be there."""
        if self._must_be_kept(record):
            self._host.write_record(record)
        elif name in self._records and self._must_be_kept(self._records[name]):
            self._host.remove_record(record.id)
        self._records = {**self._records, name: record}
        says_something = not record.attributes.keys().isdisjoint(ALERT_FIELDS)
        self._note_alerts(name, alert_choices(self._resolve(record)) if says_something else {})

    def _note_alerts(self, name: str, chosen: Mapping[str, int]) -> None:
        if chosen or name in self._own_alerts:
            others = {each: known for each, known in self._own_alerts.items() if each != name}
            self._own_alerts = {**others, name: chosen} if chosen else others

    def _forget(self, name: str) -> None:
        record = self._records.get(name)
        if record is not None:
            if self._must_be_kept(record):
                self._host.remove_record(record.id)
            self._records = {each: kept for each, kept in self._records.items() if each != name}
            self._note_alerts(name, {})

    def _must_be_kept(self, record: ObjectRecord) -> bool:
        if not record.attributes.get("durable", True):
            return False
        says_more = any(
            each not in {"name", "type", "durable"} and each not in POLICY_FIELDS and value not in (None, {}, "")
            for each, value in record.attributes.items()
        )
        return not self._host.keeps_queues or says_more or _has_variables(record.attributes)


def _has_variables(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_variables, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_variables, value))
    return isinstance(value, str) and "${" in value
