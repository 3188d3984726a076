"""Which requirements a run is about: by id, section, chapter, feature, level, or official assertion. Pure.

The contract tests of the SPI are selected in the same way: by id, or by part, which is what they have in place of a section.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from pyjms.spi.capability import Capability
from pyjms_tck.catalogue import Catalogue, Level, Requirement

__all__ = ["SelectionError", "is_selected", "part_of", "select"]

_CONTRACT_PART = "_suite"
"""How the section of a contract test ends: it is the name of its module."""


class SelectionError(ValueError):
    """A selection matches nothing; the text says what can be written."""


def select(catalogue: Catalogue, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of what matches one of `wanted`, in the order of the catalogue; nothing wanted: all.

    ``3.4.1-a`` is an id, ``3.4`` a section with all below it, ``3`` a chapter, ``TOPICS`` a feature, ``required`` a
    level, ``JMS:SPEC:2`` an official assertion, ``closing`` a part of the contract of the SPI. Raises `SelectionError` for
    what matches nothing.
    """
    wanted = tuple(wanted)
    found: set[str] = set()
    for text in wanted:
        matching = {requirement.id for requirement in catalogue.requirements.values() if _matches(requirement, text)}
        if not matching:
            raise SelectionError(_nothing(catalogue, text))
        found |= matching
    return tuple(id for id in catalogue.requirements if not wanted or id in found)


def is_selected(requirement: Requirement, wanted: Iterable[str]) -> bool:
    """Return whether one of `wanted` matches a requirement; nothing wanted: all are."""
    wanted = tuple(wanted)
    return not wanted or any(_matches(requirement, text) for text in wanted)


def part_of(requirement: Requirement) -> str | None:
    """Return the part of the contract of the SPI to which a requirement belongs; None: it is one of JMS."""
    section = requirement.section
    return section.removesuffix(_CONTRACT_PART) if section.endswith(_CONTRACT_PART) else None


def _matches(requirement: Requirement, text: str) -> bool:
    if re.fullmatch(r"\d+(\.\d+)*", text):
        return f"{requirement.section}.".startswith(f"{text}.")
    return (
        text in (requirement.id, *requirement.assertions)
        or text.lower() in (requirement.level, part_of(requirement))
        or (requirement.feature is not None and text.upper() == requirement.feature)
    )


def _nothing(catalogue: Catalogue, text: str) -> str:
    parts = list(dict.fromkeys(part for one in catalogue.requirements.values() if (part := part_of(one))))
    known = [*catalogue.requirements, *(parts or (*Capability.__members__, *Level))]
    near = difflib.get_close_matches(text, known, n=1) or difflib.get_close_matches(text.upper(), known, n=1)
    hint = f"; is {near[0]} meant?" if near else "."
    if parts:
        return f"nothing is selected by {text!r}{hint} Write an id, as --list shows them, or a part: {', '.join(parts)}"
    return (
        f"nothing is selected by {text!r}{hint} Write an id (3.4.1-a), a section (3.4), a chapter (3), a feature "
        f"(TOPICS), a level (required) or an official assertion (JMS:SPEC:2)"
    )
