"""Access control: rules, as data, that say what somebody may do."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from pyjms_provider.model.attributes import Attributes, attribute, plain
from pyjms_provider.model.configured import Startable
from pyjms_provider.model.operations import operation
from pyjms_provider.security.access import RuleAccessPolicy
from pyjms_provider.security.contracts import AccessPolicy, Operation, Principal, Target, TargetKind
from pyjms_provider.security.rules import Rule, RuleError, rules_from_data


class AccessRule(BaseModel):
    """One rule. The first that fits decides; what none allows is denied."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    effect: str
    """``allow`` or ``deny``."""
    who: str
    """``*``, ``user:NAME`` or ``group:NAME``."""
    operations: list[str] | None = None
    """None: all."""
    kind: str | None = None
    """What kind of target; None: any."""
    name: str | None = None
    """Which targets, as a pattern; None: any."""
    virtual_host: str | None = None
    """In which virtual hosts, as a pattern; None: any."""


class AccessControlAttributes(Attributes):
    """What can be chosen for access control."""

    rules: list[AccessRule] = attribute("The rules, in their order; without any, nobody may do anything.", default=[])


class Verdict(BaseModel):
    """What somebody may do, and why."""

    is_allowed: bool
    reason: str


class AccessControl(Startable):
    """The broker's rules; a change holds at once, for connections that are open too."""

    category = "access_control"
    attributes_class = AccessControlAttributes

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._policy = RuleAccessPolicy()

    @property
    def policy(self) -> AccessPolicy:
        """What is asked; the same object as long as this one lives. While this is not ACTIVE, it allows nothing."""
        return self._policy

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        self.rules_of(new)

    def rules_of(self, chosen: Attributes) -> tuple[Rule, ...]:
        """Return the rules that effective attributes have. Raises `InvalidAttributesError`."""
        assert isinstance(chosen, AccessControlAttributes)
        data = [{name: value for name, value in plain(each).items() if value is not None} for each in chosen.rules]
        try:
            return rules_from_data(data, self.path)
        except RuleError as error:
            raise self._wrong("rules", error.reason) from error

    def _on_open(self) -> None:
        self._policy.replace(self.rules_of(self.attributes))

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        self._policy.replace(self.rules_of(new))

    def _on_stop(self) -> None:
        self._policy.replace(())

    @operation("Say what somebody may do, and which rule decides.", needs=Operation.OBSERVE, changes=False)
    def explain(
        self,
        user: str,
        does: Operation,
        kind: TargetKind,
        name: str,
        virtual_host: str = "",
        groups: list[str] | None = None,
    ) -> Verdict:
        """Return what the rules say."""
        principal = Principal(name=user, groups=frozenset(groups or ()))
        decision = self._policy.explain(principal, does, Target(kind=kind, name=name, virtual_host=virtual_host))
        return Verdict(is_allowed=decision.is_allowed, reason=decision.reason)
