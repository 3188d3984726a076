"""What RECEIPT says to the verbs of data pipelines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.replay import OpenGroup, ReaderGroup, StagedUnit
from pyjms_provider.protocols.stomp.answers import number_in
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.pipeline_verbs import read_stage_name, stage_name_row

__all__ = ["PACKED_TYPE", "Counted", "GroupOpened", "GroupsListed", "MarkerRead", "Promoted", "Reserved", "UnitsListed"]

PACKED_TYPE = "application/vnd.pyjms.page"
"""The content-type of a page that is one MESSAGE (`packed`)."""

_GROUP_TYPES = {
    "name": (str,), "kind": (str,), "destination": (str,), "subscription": (str, type(None)),
    "client-id": (str, type(None)), "selector": (str, type(None)), "generation": (str,), "low": (int,), "high": (int,),
}  # fmt: skip
_LIST_MAX = 2 * 1024 * 1024
"""Characters of a list; what does not fit is left out, and a header has room for it when all is escaped."""


def _dump(rows: Sequence[Any]) -> str:
    """Return rows as JSON, as many as fit."""
    texts: list[str] = []
    left = _LIST_MAX
    for row in rows:
        text = json.dumps(row, separators=(",", ":"))
        left -= len(text) + 1
        if left < 0:
            break
        texts.append(text)
    return f"[{','.join(texts)}]"


def _load(headers: Mapping[str, str], name: str) -> list[Any]:
    try:
        rows = json.loads(headers.get(name, ""))
    except ValueError as error:
        raise ProfileError(f"the broker's answer has no list of {name}: {error}") from error
    if not isinstance(rows, list):
        raise ProfileError(f"the broker's answer has no list of {name}")
    return rows


def _group_row(group: ReaderGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "kind": group.address.kind.name.lower(),
        "destination": group.address.name,
        "subscription": group.subscription,
        "client-id": group.client_id,
        "selector": group.selector,
        "generation": group.generation,
        "low": group.low,
        "high": group.high,
    }


def _read_group(row: Any) -> ReaderGroup:
    if not isinstance(row, dict) or any(type(row.get(name)) not in types for name, types in _GROUP_TYPES.items()):
        raise ProfileError("the broker's answer tells of a reader group wrongly")
    kind = AddressKind.__members__.get(row["kind"].upper())
    if kind is None:
        raise ProfileError("the broker's answer tells of a reader group of no queue and no topic")
    return ReaderGroup(
        name=row["name"],
        address=Address(kind, row["destination"]),
        subscription=row["subscription"],
        client_id=row["client-id"],
        selector=row["selector"],
        generation=row["generation"],
        low=row["low"],
        high=row["high"],
    )


@dataclass(frozen=True, slots=True)
class GroupOpened:
    """For GROUP."""

    opened: OpenGroup

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {"fence": str(self.opened.fence), "groups": _dump([_group_row(self.opened.group)])}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> GroupOpened:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        (group,) = map(_read_group, _load(headers, "groups")[:1])
        return cls(OpenGroup(group=group, fence=number_in(headers, "fence")))


@dataclass(frozen=True, slots=True)
class GroupsListed:
    """For GROUPS."""

    groups: Sequence[ReaderGroup]

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {"groups": _dump([_group_row(group) for group in self.groups])}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> GroupsListed:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        return cls(tuple(map(_read_group, _load(headers, "groups"))))


@dataclass(frozen=True, slots=True)
class Reserved:
    """For RESERVE."""

    high: int

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {"high": str(self.high)}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Reserved:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        return cls(number_in(headers, "high"))


@dataclass(frozen=True, slots=True)
class Counted:
    """For READ, RELEASE and STAGE: how many messages that were."""

    messages: int

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {"messages": str(self.messages)}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Counted:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        return cls(number_in(headers, "messages"))


@dataclass(frozen=True, slots=True)
class Promoted:
    """For PROMOTE."""

    is_new: bool
    """False: it had been done before."""

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {"result": "promoted" if self.is_new else "known"}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Promoted:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        result = headers.get("result")
        if result not in ("promoted", "known"):
            raise ProfileError("the broker's answer to PROMOTE has no result")
        return cls(result == "promoted")


@dataclass(frozen=True, slots=True)
class MarkerRead:
    """For MARKER."""

    epoch: int | None

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {} if self.epoch is None else {"epoch": str(self.epoch)}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> MarkerRead:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        return cls(number_in(headers, "epoch") if "epoch" in headers else None)


@dataclass(frozen=True, slots=True)
class UnitsListed:
    """For UNITS."""

    units: Sequence[StagedUnit]

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        rows = [
            [stage_name_row(unit.name), unit.messages, unit.staged_ms, unit.discarded_after_ms] for unit in self.units
        ]
        return {"units": _dump(rows)}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> UnitsListed:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        try:
            return cls(tuple(map(_read_unit, _load(headers, "units"))))
        except ValueError as error:
            raise ProfileError("the broker's answer tells of a staged unit wrongly") from error


def _read_unit(row: Any) -> StagedUnit:
    if not (isinstance(row, list) and list(map(type, row)) == [list, int, int, int]):
        raise ValueError
    name, messages, staged_ms, discarded_after_ms = row
    return StagedUnit(
        name=read_stage_name(name), messages=messages, staged_ms=staged_ms, discarded_after_ms=discarded_after_ms
    )
