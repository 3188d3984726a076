"""Which requirements a run is about: by id, section, chapter, feature, level, or official assertion. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from pyjms.spi.capability import Capability
from pyjms_tck.catalogue import Catalogue, Level, Requirement

__all__ = ["SelectionError", "select"]


class SelectionError(ValueError):
    """A selection matches nothing; the text says what can be written."""


def select(catalogue: Catalogue, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of what matches one of `wanted`, in the order of the catalogue; nothing wanted: all.

    ``3.4.1-a`` is an id, ``3.4`` a section with all below it, ``3`` a chapter, ``TOPICS`` a feature, ``required`` a
    level, ``JMS:SPEC:2`` an official assertion. Raises `SelectionError` for what matches nothing.
    """
    wanted = tuple(wanted)
    found: set[str] = set()
    for text in wanted:
        matching = {requirement.id for requirement in catalogue.requirements.values() if _matches(requirement, text)}
        if not matching:
            raise SelectionError(_nothing(catalogue, text))
        found |= matching
    return tuple(id for id in catalogue.requirements if not wanted or id in found)


def _matches(requirement: Requirement, text: str) -> bool:
    if re.fullmatch(r"\d+(\.\d+)*", text):
        return f"{requirement.section}.".startswith(f"{text}.")
    return (
        text in (requirement.id, *requirement.assertions)
        or text.lower() == requirement.level
        or (requirement.feature is not None and text.upper() == requirement.feature)
    )


def _nothing(catalogue: Catalogue, text: str) -> str:
    known = [*catalogue.requirements, *Capability.__members__, *Level]
    near = difflib.get_close_matches(text, known, n=1) or difflib.get_close_matches(text.upper(), known, n=1)
    hint = f"; is {near[0]} meant?" if near else ""
    return (
        f"nothing is selected by {text!r}{hint} Write an id (3.4.1-a), a section (3.4), a chapter (3), a feature "
        f"(TOPICS), a level (required) or an official assertion (JMS:SPEC:2)"
    )
