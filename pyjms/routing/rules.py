"""Rules as data: the validated content of a file of rules. Pure.

A rule matches a message when all of its conditions hold. Rules are evaluated in their order; each target gets a message
once, from the first rule that names it; `stop` ends the search.
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
"""The types of values with which the value at a path may be compared."""

BODIES = ("none", "text", "bytes", "map", "stream", "object", "json", "xml")
"""The kinds of body in a rule; a text (or bytes in UTF-8) that parses as such is also ``json`` or ``xml``."""


class Language(Enum):
    """The kind of document that a path searches."""

    JSON = "json"
    XML = "xml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A condition on the value at a path into the body. If a path finds several values, one match is enough."""

    language: Language
    path: str
    """JSON: a JSON Pointer (RFC 6901), with ``*`` for any member. XML: ElementTree's paths, and ``/@NAME`` at the end."""
    equals: tuple[Literal, ...] | None = None
    """One of these values, of the same type."""
    where: Selector | None = None
    """A selector on the identifier ``value``."""
    exists: bool | None = None
    """Whether there must be a value, or must be none."""
    as_number: bool = False
    """Convert the text at the path to a number first."""

    def __str__(self) -> str:
        """Return it as text for people."""
        if self.equals is not None:
            wanted = f"is {' or '.join(map(repr, self.equals))}"
        elif self.where is not None:
            wanted = f"where {self.where.text}"
        else:
            wanted = "is there" if self.exists else "is not there"
        return f"{self.language.value} {self.path} {wanted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """The use of a transformer in a rule."""

    use: str
    apply: Transformer = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. A condition that is None always holds."""

    name: str
    targets: tuple[str, ...]
    senders: tuple[str, ...] | None = None
    """One of these; ``*`` matches any characters."""
    types: tuple[str, ...] | None = None
    """JMSType is one of these; ``*`` matches any characters."""
    bodies: tuple[str, ...] | None = None
    """One of `BODIES`."""
    selector: Selector | None = None
    content: tuple[Content, ...] = ()
    transforms: tuple[Transform, ...] = ()
    tap: bool = False
    """A tap: a message that no other rule matches is undeliverable nevertheless."""
    stop: bool = False
    """Whether a match ends the search: no later rule is evaluated."""
    line: int | None = None
    """Its line in the file, if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """A named destination."""

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
    """All targets that rules name."""
    undeliverable: str | None = None
    """The target of messages that no rule but taps matches; None: they are undeliverable."""
    sender_properties: tuple[str, ...] = ("JMSXUserID", "JMSXAppID")
    """The properties with the sender's identity: the first of these that a message has."""
    body_bytes_max: int = 1 << 20
    """Larger bodies are not parsed."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One target for one message, and the rule that chose it; None: no rule did."""

    target: str
    rule: Rule | None
