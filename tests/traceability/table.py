"""The traceability table: requirement -> the tests that cite it -> the result.

Pure functions over what `plugin` gathers. The requirements stand in ``items.toml``; an item that belongs to durability,
the network or management, and cannot concern the broker in this process, is excused with a reason.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

AREAS = frozenset({"durability", "network", "management", "declined"})
PASSED = "passed"
FAILED = "failed"

_ID_WIDTH = 14
_VERDICT_WIDTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One requirement."""

    id: str
    statement: str
    belongs_to: str | None
    why: str | None
    left_open: bool

    @property
    def is_excused(self) -> bool:
        """Whether the item belongs to a part of the system that this project does not have yet."""
        return self.belongs_to is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """One run of one test that cites an item."""

    item_id: str
    test: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: an item and all that was run for it, by test, sorted."""

    item: Item
    outcomes: tuple[tuple[str, str], ...]

    @property
    def is_realised(self) -> bool:
        """Whether at least one test that cites the item passed, and none failed."""
        return bool(self.outcomes) and all(outcome == PASSED for _, outcome in self.outcomes)

    @property
    def verdict(self) -> str:
        """One word for the table."""
        if self.is_realised:
            return "realised"
        if self.outcomes:
            return "FAILED"
        return str(self.item.belongs_to) if self.item.is_excused else "NOT REALISED"


class ItemsError(ValueError):
    """``items.toml`` contradicts itself."""


def load_items(path: Path) -> dict[str, Item]:
    """Read the items by id; raises `ItemsError` on a double id or a half excuse."""
    items: dict[str, Item] = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["item"]:
        item = Item(
            id=entry["id"],
            statement=entry["statement"],
            belongs_to=entry.get("belongs_to"),
            why=entry.get("why"),
            left_open=entry.get("left_open", False),
        )
        if item.id in items:
            raise ItemsError(f"{item.id} is there twice")
        if (item.belongs_to is None) != (item.why is None):
            raise ItemsError(f"{item.id}: `belongs_to` and `why` go together")
        if item.why is not None and not item.why.strip():
            raise ItemsError(f"{item.id}: `why` says nothing")
        if item.belongs_to is not None and item.belongs_to not in AREAS:
            raise ItemsError(f"{item.id} belongs to {item.belongs_to!r}, which is none of {sorted(AREAS)}")
        items[item.id] = item
    return items


def make_rows(items: Mapping[str, Item], citations: Iterable[Citation]) -> list[Row]:
    """Join items and citations, in the order of the items. A test that failed once (in a phase or a case) has failed."""
    outcomes: dict[str, dict[str, str]] = {item_id: {} for item_id in items}
    for citation in citations:
        if citation.item_id not in outcomes:
            continue
        tests = outcomes[citation.item_id]
        if tests.get(citation.test, PASSED) == PASSED:
            tests[citation.test] = citation.outcome
    return [Row(item=item, outcomes=tuple(sorted(outcomes[item.id].items()))) for item in items.values()]


def unknown_ids(items: Mapping[str, Item], cited: Iterable[str]) -> list[str]:
    """Return the cited ids that no item has, sorted, each once."""
    return sorted(set(cited) - set(items))


def missing(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that fail the build: neither realised nor excused, or cited by a test that fails."""
    return [row for row in rows if not row.is_realised and (row.outcomes or not row.item.is_excused)]


def render(rows: list[Row]) -> list[str]:
    """Return the lines of the report: the table, the excused items with their reasons, what is missing, the sums."""
    lines = [f"{'id':<{_ID_WIDTH}}{'verdict':<{_VERDICT_WIDTH}}  tests"]
    for row in rows:
        tests = [name if outcome == PASSED else f"{name} ({outcome})" for name, outcome in row.outcomes] or ["-"]
        lines.append(f"{row.item.id:<{_ID_WIDTH}}{row.verdict:<{_VERDICT_WIDTH}}  {tests[0]}")
        lines.extend(f"{'':<{_ID_WIDTH + _VERDICT_WIDTH}}  {test}" for test in tests[1:])

    excused = [row.item for row in rows if row.item.is_excused and not row.outcomes]
    lines += ["", f"Not realised, because they belong elsewhere: {len(excused)}"]
    lines += [f"{item.id:<{_ID_WIDTH}}{item.belongs_to}: {item.statement} {item.why}" for item in excused]

    lost = missing(rows)
    lines += ["", f"Not realised: {len(lost)}"]
    lines += [f"{row.item.id:<{_ID_WIDTH}}{row.verdict}: {row.item.statement}" for row in lost]

    realised = sum(row.is_realised for row in rows)
    lines += ["", f"{len(rows)} items: {realised} realised, {len(excused)} belong elsewhere, {len(lost)} not realised"]
    return lines
