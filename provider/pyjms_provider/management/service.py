"""The management service, the only way to the model for all interfaces: finds objects, checks rights, makes changes, and audits them.

Two callers may change one object: each says which version they have seen, and the second gets an error instead of overwriting the
first change. A version is that of an object's configuration, without what is measured; an object that goes from revision to
revision by itself, as an instance of a workflow does, has a version for each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from uuid import UUID
from weakref import WeakSet

from pyjms.spi.errors import AccessDeniedError, ProviderError
from pyjms_provider.management.describing import (
    ListedPage,
    ListRequest,
    check_fields,
    describe,
    list_objects,
    page_of_source,
)
from pyjms_provider.management.errors import ChangedMeanwhileError, UnknownJobError
from pyjms_provider.management.jobs import Job, Jobs
from pyjms_provider.management.privileges import (
    STOPPING,
    check_changed_privileges,
    check_lockout,
    check_new_privileges,
    check_not_own_access,
    target_at,
    target_of,
)
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import declarations
from pyjms_provider.model.errors import UnknownObjectError, UnknownOperationError
from pyjms_provider.model.lookup import (
    Siblings,
    check_names,
    find_by_id,
    find_by_names,
    names_needed,
    only_source,
    siblings,
)
from pyjms_provider.model.operations import KEPT_QUIET, NO_PROGRESS, WRITES_TO, OperationDeclaration, operations_of
from pyjms_provider.security.audit import AuditAction, AuditLog, AuditRecord, AuditResult, LoginAudit
from pyjms_provider.security.contracts import Operation, TargetKind
from pyjms_provider.security.logins import RevocationGuard

if TYPE_CHECKING:
    from pyjms_provider.model.broker import SystemConfig
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.model.operations import Progress
    from pyjms_provider.security.contracts import AccessPolicy, Principal, Target


_T = TypeVar("_T")
ANY: Final = "*"
_LENGTH: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The preconditions of a request on an object."""

    tags: frozenset[str] = frozenset()
    """Its entity tag must be one of these; empty: any."""
    is_new: bool = False
    """The object must not exist yet."""


def read_expected(if_match: str | None, if_none_match: str | None) -> Expected:
    """Parse the two headers of a request (RFC 9110 §13.1)."""
    tags = frozenset(each.strip() for each in (if_match or "").split(",") if each.strip())
    return Expected(tags=tags, is_new=(if_none_match or "").strip() == ANY)


def tag_of(managed: ManagedObject) -> str:
    """Return the entity tag of an object's configuration."""
    facts = managed.facts()
    configuration = [facts["id"], facts["updated_at_ms"], facts["updated_by"], managed.attribute_values(actual=True)]
    seen = [*configuration, managed.revision_seen]
    text = json.dumps(seen, sort_keys=True, default=str)
    return f'"{hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_LENGTH]}"'


def while_expected(managed: ManagedObject, expected: Expected, act: Callable[[], _T], *, above: bool = False) -> _T:
    """Run `act` if the object is the expected version, with no change in between.

    `above`: it runs on the parent's thread, as a deletion does. Raises `ChangedMeanwhileError`.
    """
    if not expected.tags and not expected.is_new:
        return act()

    def checked() -> _T:
        managed.configuration_thread.call(lambda: check_expected(managed, expected))
        return act()

    # The check and the act are one job of one configuration thread. A delete is the parent's
    # job, so a check on the object's thread alone would leave time for another change.
    owner = managed.parent if above and managed.parent is not None else managed
    return owner.configuration_thread.call(checked)


def check_expected(managed: ManagedObject, expected: Expected) -> None:
    """Refuse an object that is another version than expected. Raises `ChangedMeanwhileError`."""
    if not expected.tags and not expected.is_new:
        return
    if expected.is_new:
        raise ChangedMeanwhileError(f"{managed.path} is there already, and it was to be created only if it is not")
    if ANY in expected.tags or tag_of(managed) in expected.tags:
        return
    facts: dict[str, Any] = managed.facts()
    who = f" by {facts['updated_by']}" if facts["updated_by"] else ""
    at_ms = facts["updated_at_ms"]
    when = "" if at_ms is None else f" at {datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    raise ChangedMeanwhileError(
        f"{managed.path} was changed{who}{when}, after you looked at it, so nothing was done; look at it again, and say "
        f"what you still want changed"
    )


_TYPED: Final = "type"
_NAMING: Final = frozenset({"name"})
_NAMES_LISTED: Final = 10
"""The most names listed in the error for a name that does not exist."""
ANYTHING: Final = Expected()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The user of a request, the address, and the policy of the user's rights."""

    principal: Principal
    access: AccessPolicy
    peer: str = ""
    port: UUID | None = None
    """The id of the port of the request; None: no port of its own."""


class UserSessions(Protocol):
    """Log-ins that outlive a request."""

    def end_all_of(self, provider: str, user_name: str) -> None:
        """End those of a user of an authentication provider."""
        ...


class ManagementService:
    """Safe to use from any thread. Every call raises `AccessDeniedError`, and the errors of the model."""

    def __init__(self, system: SystemConfig, audit: AuditLog) -> None:
        self.system = system
        self.jobs = Jobs(system.clock)
        self._audit = audit
        self._logins = LoginAudit(audit, system.clock)
        self._sessions: WeakSet[UserSessions] = WeakSet()
        self.revocations = RevocationGuard()
        """Users whose log-ins, and connections, are being ended."""

    # Reading

    def find(self, caller: Caller, category: str, names: Sequence[str]) -> ManagedObject:
        """Return the object at an address: `category`, and the names from below the broker. Raises `UnknownObjectError`.

        A caller who may not see an object is not told either whether it exists.
        """
        # Before anything is looked for: what is said of a wrong address must not depend on what is there.
        check_names(category, names)
        try:
            managed = find_by_names(self.system.broker, category, names)
        except UnknownObjectError as error:
            # Before the text about existing names: the caller must not learn from it which names exist.
            self._check_missing(caller, category, names)
            raise UnknownObjectError(error.reason + self._existing_names(caller, category, names)) from error
        self._check(caller, Operation.OBSERVE, managed)
        return managed

    def _existing_names(self, caller: Caller, category: str, names: Sequence[str]) -> str:
        """Return a text about the names that exist where the first object of the address is missing.

        "": the caller may see none of them, and is not told whether and where there are any.
        """
        above: ManagedObject = self.system.broker
        for depth, (below, name) in enumerate(zip(names_needed(category), names, strict=False)):
            found = above.find_child(below, name)
            if found is None:
                seen = [repr(each) for group in self._visible(caller, below, names[:depth]) for each in group.names]
                more = f" and {len(seen) - _NAMES_LISTED} more" if len(seen) > _NAMES_LISTED else ""
                return f"; there are: {', '.join(seen[:_NAMES_LISTED])}{more}" if seen else ""
            above = found
        return ""

    def _check_missing(self, caller: Caller, category: str, names: Sequence[str]) -> None:
        """Check that the caller could see the first missing object of an address.

        If not, raises `UnknownObjectError` for the last object of the address, as if only that one were missing.
        """
        if self._may_see_missing(caller, category, names):
            return
        needed = names_needed(category)
        caller.access.check(caller.principal, Operation.OBSERVE, target_at(category, names))
        raise UnknownObjectError(f"{needed[-2]} {'/'.join(names[:-1])} has no {category} {names[-1]!r}")

    def _may_see_missing(self, caller: Caller, category: str, names: Sequence[str]) -> bool:
        """Return whether the caller could see the first missing object of an address, or of the beginning of one."""
        above: ManagedObject = self.system.broker
        for below, name in zip(names_needed(category), names, strict=False):
            found = above.find_child(below, name)
            if found is None:
                return self._may(caller, Operation.OBSERVE, target_of(above, below, name))
            above = found
        return True

    def find_or_none(self, caller: Caller, category: str, names: Sequence[str]) -> ManagedObject | None:
        """Return the object at an address, None if there is none but one could be created."""
        check_names(category, names)
        try:
            return self.find(caller, category, names)
        except UnknownObjectError:
            try:
                self._parent(category, names[:-1])
            except UnknownObjectError:
                if self._may_see_missing(caller, category, names):
                    raise
            return None  # creating it reports more
        except AccessDeniedError as denied:
            try:
                parent = self._parent(category, names[:-1])
            except UnknownObjectError:
                if self._may(caller, Operation.CREATE, target_at(category, names)):
                    raise
                raise denied from None
            if parent.find_child(category, names[-1]) is not None:
                raise
            if not self._may(caller, Operation.CREATE, target_of(parent, category, names[-1])):
                raise
            return None

    def find_by_id(self, caller: Caller, category: str, wanted: UUID) -> ManagedObject:
        """Return the object with that id. Raises `UnknownObjectError`; `ProviderError` where it may be in a store that is away."""
        # One answer for an object that is missing and for one that the caller
        # may not see: two would tell which ids exist.
        managed = find_by_id(self.system, wanted, category)
        if managed is None or managed.category != category or not self._sees(caller, managed.target()):
            raise UnknownObjectError(f"there is no {category} with the id {wanted}, or you may not see it")
        return managed

    def list(self, caller: Caller, category: str, names: Sequence[str], request: ListRequest) -> ListedPage:
        """Return a page of the objects of a category below an address; those that the caller may not see are left out."""
        if len(names) > len(names_needed(category)):
            check_names(category, names)
        try:
            return self._list(caller, category, names, request)
        except UnknownObjectError as error:
            if self._may_see_missing(caller, category, names):
                raise UnknownObjectError(error.reason + self._existing_names(caller, category, names)) from error
            return list_objects(category, (), request)  # as below an object that they may not see

    def _list(self, caller: Caller, category: str, names: Sequence[str], request: ListRequest) -> ListedPage:
        source = only_source(self.system.broker, category, names)
        common = None if source is None else source.common_target()
        # All objects of this source have one target, so one question about
        # rights is enough, and the source may find the page by itself.
        if source is not None and common is not None:
            if not self._sees(caller, common):
                return list_objects(category, (), request)
            page = page_of_source(category, source, request)
            if page is not None:
                return page
        return list_objects(category, list(self._visible(caller, category, names)), request)

    def _visible(self, caller: Caller, category: str, names: Sequence[str]) -> Iterator[Siblings]:
        for group in siblings(self.system.broker, category, names):
            common = None if group.source is None else group.source.targets()
            if common is None:
                seen = [name for name in group.names if self._sees(caller, group.target(name))]
            else:
                # All names in one question: a question for each of 10,000 queues would
                # take longer than the rest of the list (decision 0702).
                seen = caller.access.permitted(caller.principal, Operation.OBSERVE, *common, group.names)
            yield replace(group, names=seen)

    def _sees(self, caller: Caller, target: Target | None) -> bool:
        return target is not None and self._may(caller, Operation.OBSERVE, target)

    def _may(self, caller: Caller, operation: Operation, target: Target) -> bool:
        try:
            caller.access.check(caller.principal, operation, target)
        except AccessDeniedError:
            return False
        return True

    def permitted(self, caller: Caller, managed: ManagedObject) -> tuple[Operation, ...]:
        """Return the operations that the caller may do with an object, so that interfaces offer no others."""
        target = managed.target()
        return tuple(operation for operation in Operation if self._may(caller, operation, target))

    # Changing

    def create(
        self, caller: Caller, category: str, names: Sequence[str], attributes: Mapping[str, Any]
    ) -> ManagedObject:
        """Create an object; `names` is the address of its parent. Raises `InvalidAttributesError` and the like."""
        given_name = attributes.get("name")
        name = given_name if isinstance(given_name, str) else ""  # the model reports any other value
        target = "/".join((category, *names, name))
        # Made before any check: a refused attempt is audited, too.
        facts = {"after": attributes, "secure": _secure(category, attributes.get(_TYPED), attributes)}
        try:
            parent = self._parent(category, names)
        except UnknownObjectError as error:
            if len(names) != len(names_needed(category)) - 1:
                raise
            if not self._may_see_missing(caller, category, names):
                with self._auditing(caller, AuditAction.CREATE, target, **facts):
                    caller.access.check(caller.principal, Operation.CREATE, target_at(category, (*names, name)))
            raise UnknownObjectError(error.reason + self._existing_names(caller, category, names)) from error

        def create() -> ManagedObject:
            # On the thread that makes the change: the rules cannot change between the check and the change.
            check_new_privileges(caller.principal, caller.access, parent, category, attributes)
            return parent.create_child(category, attributes, by=caller.principal.name)

        return self._changed(
            caller,
            AuditAction.CREATE,
            target,
            lambda: self._check_new(caller, parent, category, name, attributes),
            lambda: parent.configuration_thread.call(create),
            **facts,
        )

    def change(
        self,
        caller: Caller,
        managed: ManagedObject,
        changes: Mapping[str, Any],
        expected: Expected = ANYTHING,
        *,
        force: bool = False,
    ) -> None:
        """Change attributes; null: the default again. Raises `ChangedMeanwhileError` if it is not what was expected.

        `force`: even if the caller could not undo it; otherwise that raises `LockoutError`.
        """

        def change() -> None:
            # On the configuration thread, as in `create`: no rule changes between these questions and the change.
            if not force:
                check_lockout(caller.principal, caller.access, caller.port, managed, changes)
            check_changed_privileges(caller.principal, caller.access, managed, changes)
            managed.set_attributes(changes, by=caller.principal.name)

        self._changed(
            caller,
            AuditAction.CHANGE,
            _address(managed),
            lambda: self._check(caller, Operation.ADMINISTER, managed),
            lambda: while_expected(managed, expected, lambda: managed.configuration_thread.call(change)),
            before=managed.attribute_values(tuple(changes), actual=True),
            after=changes,
            secure=_secure(managed.category, managed.type, changes),
        )

    def delete(self, caller: Caller, managed: ManagedObject, expected: Expected = ANYTHING) -> None:
        """Delete an object with all below it. Raises `ChangedMeanwhileError` if it is not what was expected."""

        def check() -> None:
            self._check(caller, Operation.ADMINISTER, managed)
            check_not_own_access(caller.principal, caller.port, managed)

        self._changed(
            caller,
            AuditAction.DELETE,
            _address(managed),
            check,
            lambda: while_expected(managed, expected, lambda: managed.delete(by=caller.principal.name), above=True),
        )

    # Operations

    def operation(self, managed: ManagedObject, name: str) -> OperationDeclaration:
        """Return the declaration of an operation. Raises `UnknownOperationError`."""
        known = operations_of(type(managed))
        if name not in known:
            raise UnknownOperationError(
                f"{managed.path} has no operation {name[:80]!r}; it has: {', '.join(known) or 'none'}"
            )
        return known[name]

    def invoke(
        self,
        caller: Caller,
        managed: ManagedObject,
        name: str,
        arguments: Mapping[str, Any],
        progress: Progress = NO_PROGRESS,
        expected: Expected = ANYTHING,
    ) -> Any:
        """Run an operation with plain arguments; return its plain result.

        Raises `ChangedMeanwhileError`, for one that changes something, if the object is not what was expected.
        """
        declared = self.operation(managed, name)

        def run() -> Any:
            permissions = partial(caller.access.permitted, caller.principal)
            return managed.invoke(name, arguments, by=caller.principal.name, progress=progress, permissions=permissions)

        if not declared.changes:
            self._check_operation(caller, declared, managed, arguments)
            return run()

        def act() -> Any:
            if name in STOPPING:
                check_not_own_access(caller.principal, caller.port, managed)
            check_expected(managed, expected)
            return run()

        return self._changed(
            caller,
            AuditAction.OPERATION,
            _address(managed),
            lambda: self._check_operation(caller, declared, managed, arguments),
            act,
            operation=name,
            after=arguments,
            secure=_secure_arguments(declared, arguments),
        )

    def begin(
        self,
        caller: Caller,
        managed: ManagedObject,
        name: str,
        arguments: Mapping[str, Any],
        expected: Expected = ANYTHING,
    ) -> Job:
        """Start a long operation; the caller may read the job, and stop it. Raises as `invoke`."""
        declared = self.operation(managed, name)
        facts = {"operation": name, "after": arguments, "secure": _secure_arguments(declared, arguments)}
        is_noted = declared.changes
        # Failures before the job begins are noted here; `invoke` notes the result of the job itself.
        with self._auditing(caller, AuditAction.OPERATION, _address(managed), **facts) if is_noted else nullcontext():
            self._check_operation(caller, declared, managed, arguments)
            # Read here already: the caller gets wrong arguments as an answer, and not as a job that failed.
            declared.read_arguments(managed.path, arguments)
            check_expected(managed, expected)
            return self.jobs.start(
                f"{name} of {managed.path}",
                caller.principal,
                lambda progress: self.invoke(caller, managed, name, arguments, progress),
            )

    def describe(
        self, managed: ManagedObject, fields: Sequence[str] | None = None, *, actual: bool = False
    ) -> dict[str, Any]:
        """Return an object as plain data. Raises `BadRequestError` for a field that its category does not have."""
        check_fields(managed.category, fields or ())
        return describe(managed, fields, actual=actual)

    def job(self, caller: Caller, job_id: str, *, end: bool = False) -> Job:
        """Return a job of the caller's; `end`: stop it half way. Raises `UnknownJobError`."""
        job = self.jobs.get(job_id)
        if not job.is_of(caller.principal):
            raise UnknownJobError(f"there is no job {job_id[:40]!r} of yours")
        return self.jobs.end(job_id) if end else job

    # Rights and audit

    def note_login(
        self, principal: Principal | None, user_name: str, peer: str, action: AuditAction, result: AuditResult
    ) -> None:
        """Audit the log-in or log-out of an operator, or a refusal; frequent refusals are counted."""
        record = AuditRecord(action=action, who=principal, target=user_name, result=result, peer=peer)
        # An operator's log-in and log-out are written each. Refusals can be
        # caused by anybody, so they are counted (decision 0160).
        if result is AuditResult.REFUSED:
            self._logins.note(record)
        else:
            self._audit.write(record)

    def note_client(self, principal: Principal | None, user_name: str, peer: str, port: str, reason: str = "") -> None:
        """Audit a client's log-in at a port, or (`principal` None) its refusal, and why; frequent ones are counted."""
        result = AuditResult.REFUSED if principal is None else AuditResult.DONE
        facts = {"port": port}
        if principal is not None and principal.unchecked_login is not None:
            facts["login"] = "not checked"
        self._logins.note(
            AuditRecord(
                action=AuditAction.LOG_IN,
                who=principal,
                target=user_name,
                result=result,
                peer=peer,
                after=facts,
                reason=reason,
            )
        )

    def add_sessions(self, sessions: UserSessions) -> None:
        """Register log-ins that end with their users; only a weak reference is kept."""
        self._sessions.add(sessions)

    def end_sessions(self, provider: str, user_name: str) -> None:
        """End the log-ins of a user whose rights have changed since the log-in."""
        # Noted first: a log-in that is under way, and enters its session after the loop, is refused by its own check.
        self.revocations.note(provider, user_name)
        # A copy, as another port may add its sessions meanwhile.
        for each in list(self._sessions):
            each.end_all_of(provider, user_name)

    def _parent(self, category: str, names: Sequence[str]) -> ManagedObject:
        above = tree.shape_of(category).parent
        if above is None or above == tree.ROOT:
            raise UnknownObjectError(f"there is one {category}, and no other can be created")
        if above == "broker" and not names:
            return self.system.broker
        if len(names) != len(names_needed(above)):
            raise UnknownObjectError(
                f"a {category} is created below a {above}: name it by {'/'.join(names_needed(above))}"
            )
        return find_by_names(self.system.broker, above, names)

    def _check(self, caller: Caller, operation: Operation, managed: ManagedObject) -> None:
        caller.access.check(caller.principal, operation, managed.target())

    def _check_new(
        self, caller: Caller, parent: ManagedObject, category: str, name: str, given: Collection[str] = ()
    ) -> None:
        """Check that the caller may create an object of that name: the rules for the object itself count.

        `given`: its attributes. Clients have the right to create destinations at first use, which sets no attributes.
        """
        target = target_of(parent, category, name)
        caller.access.check(caller.principal, Operation.CREATE, target)
        if target.kind is not TargetKind.MANAGED and not _NAMING.issuperset(given):
            caller.access.check(caller.principal, Operation.ADMINISTER, target)

    def _check_operation(
        self, caller: Caller, declared: OperationDeclaration, managed: ManagedObject, arguments: Mapping[str, Any]
    ) -> None:
        """Check that the caller may run the operation on the object, and write to the objects that the arguments name."""
        self._check(caller, declared.needs, managed)
        # An argument may name a destination that the operation writes to, as
        # that of a move: the caller needs the right to send there.
        for name, schema in declared.parameters.get("properties", {}).items():
            category, other = schema.get(WRITES_TO), arguments.get(name)
            if category is None or not isinstance(other, str) or managed.parent is None:
                continue
            beside = managed.parent.find_child(category, other)
            if beside is None:
                self._check_new(caller, managed.parent, category, other)
            source = managed.parent.sources().get(category)
            target = beside.target() if beside is not None else None if source is None else source.target(other)
            if target is not None:
                caller.access.check(caller.principal, Operation.WRITE, target)

    def _changed(
        self,
        caller: Caller,
        action: AuditAction,
        target: str,
        check: Callable[[], None],
        act: Callable[[], _T],
        **facts: Any,
    ) -> _T:
        """Check and make a change, and audit the attempt with its result."""
        with self._auditing(caller, action, target, **facts) as note:
            check()
            done = act()
        note(AuditResult.DONE)
        return done

    @contextmanager
    def _auditing(
        self, caller: Caller, action: AuditAction, target: str, **facts: Any
    ) -> Iterator[Callable[[AuditResult], None]]:
        """Audit a failed attempt; yields a function that audits any result."""

        def note(result: AuditResult, reason: str = "") -> None:
            self._audit.write(
                AuditRecord(
                    action=action,
                    who=caller.principal,
                    target=target,
                    result=result,
                    peer=caller.peer,
                    reason=reason,
                    **facts,
                )
            )

        try:
            yield note
        except AccessDeniedError as error:
            note(AuditResult.REFUSED, error.reason)
            raise
        except ProviderError as error:
            note(AuditResult.FAILED, error.reason)
            raise
        except Exception as error:
            # The class alone: the text of an unforeseen error may hold values of attributes, secrets among them.
            note(AuditResult.FAILED, type(error).__name__)
            raise

    def close(self) -> None:
        """End all running jobs."""
        self.jobs.close()
        self._logins.close()


def _address(managed: ManagedObject) -> str:
    return "/".join((managed.category, *managed.names))


def _secure(category: str, type_name: object, given: Collection[str]) -> frozenset[str]:
    """Return the attributes whose values are not audited: secrets, and undeclared ones, which may be misspelt secrets."""
    try:
        _, kind = tree.class_of(category, None if type_name is None else str(type_name))
    except ProviderError:
        # An unknown category or type declares nothing, so any of the values may be a secret.
        return frozenset(given)
    known = declarations(kind.attributes_class)
    return frozenset(name for name in {*known, *given} if name not in known or known[name].is_secure)


def _secure_arguments(declared: OperationDeclaration, given: Collection[str]) -> frozenset[str]:
    """Return the arguments of an operation whose values are not audited, as they are the contents of messages."""
    known = declared.parameters.get("properties", {})
    return frozenset(name for name in given if name not in known or known[name].get(KEPT_QUIET))
