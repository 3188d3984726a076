"""Rules as facts: what stands in a file of rules, once it has been read and found to be right. Pure.

A rule wants a message when all of its conditions hold. Rules are asked in their order; each target gets a message once, from the
first rule that names it; `stop` ends the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from pyjms.routing.transformers import Transformer
from pyjms.spi.envelope import Address
from pyjms.spi.selector import Selector

Literal: TypeAlias = str | int | float | bool
"""What the value at a path may be compared with."""

BODIES = ("none", "text", "bytes", "map", "stream", "object", "json", "xml")
"""The kinds of body that a rule may ask for; a text (or bytes in UTF-8) that can be read so is also ``json`` or ``xml``."""


class Language(Enum):
    """What a path goes into."""

    JSON = "json"
    XML = "xml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A condition on the value at a path into the body. Where a path leads to several values, one that fits is enough."""

    language: Language
    path: str
    """JSON: a JSON Pointer (RFC 6901), with ``*`` for any member. XML: ElementTree's paths, and ``/@NAME`` at the end."""
    equals: tuple[Literal, ...] | None = None
    """One of these, of the same type."""
    where: Selector | None = None
    """A selector on the identifier ``value``."""
    exists: bool | None = None
    """Whether there must be a value, or must be none."""
    as_number: bool = False
    """Read the text at the path as a number first."""

    def __str__(self) -> str:
        """Say it for people."""
        if self.equals is not None:
            wanted = f"is {' or '.join(map(repr, self.equals))}"
        elif self.where is not None:
            wanted = f"where {self.where.text}"
        else:
            wanted = "is there" if self.exists else "is not there"
        return f"{self.language.value} {self.path} {wanted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A transformer, as a rule uses it."""

    use: str
    apply: Transformer = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. A condition that is None holds always."""

    name: str
    targets: tuple[str, ...]
    senders: tuple[str, ...] | None = None
    """One of these; ``*`` stands for any characters."""
    types: tuple[str, ...] | None = None
    """JMSType is one of these; ``*`` stands for any characters."""
    bodies: tuple[str, ...] | None = None
    """One of `BODIES`."""
    selector: Selector | None = None
    content: tuple[Content, ...] = ()
    transforms: tuple[Transform, ...] = ()
    tap: bool = False
    """Only listens in: a message that nobody else wants is undeliverable still."""
    stop: bool = False
    """No later rule is asked about a message that this one wants."""
    line: int | None = None
    """Where it stands in its file, if that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """A destination under a name."""

    address: Address
    url: str | None = None
    """The site; None: that of the source."""
    user: str | None = None
    password_file: str | None = None
    duplicate_property: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """All rules of one route."""

    rules: tuple[Rule, ...]
    targets: Mapping[str, TargetSpec]
    """All that rules name."""
    undeliverable: str | None = None
    """The target of messages that no rule wants, save for those that only listen in; None: they are set aside."""
    sender_properties: tuple[str, ...] = ("JMSXUserID", "JMSXAppID")
    """Where the sender's identity is: the first of these properties that a message has."""
    body_bytes_max: int = 1 << 20
    """Bodies larger than this are not looked into."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One target for one message, and the rule that wanted it; None: no rule did."""

    target: str
    rule: Rule | None
