"""What the answers to commands say, what the broker says of itself to a pyjms client, and errors of the SPI, as headers.

Over STOMP they are the headers of RECEIPT, CONNECTED and ERROR (`pyjms_provider.protocols.stomp.command_frames`).

A pyjms client raises the same class of error as the broker; for a class of the broker's own, its base class in the SPI, with its code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind, MessageId
from pyjms.spi.errors import BranchError, DestinationError, InvalidSelectorError, ProviderError, RolledBackError
from pyjms.spi.replay import OpenGroup, ReaderGroup, StagedUnit
from pyjms.spi.sessions import RegisteredClient
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.protocols.profile.commands import TEXTS, read_stage_name, readable, stage_name_row
from pyjms_provider.protocols.profile.errors import CommandError
from pyjms_provider.protocols.profile.paths import EXACT_PATHS

_BODY_MAX = "body-max"


def number_in(headers: Mapping[str, str], name: str) -> int:
    """Return the number in a header of an answer. Raises `CommandError`."""
    text = headers.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise CommandError(f"the broker's answer lacks the number {name}")
    return int(text)


def body_max_in(headers: Mapping[str, str]) -> int:
    """Return the largest frame body in bytes, as CONNECTED says; 0: it does not say. Raises `CommandError`."""
    return number_in(headers, _BODY_MAX) if _BODY_MAX in headers else 0


@dataclass(frozen=True, slots=True)
class Sent:
    """For SEND."""

    message_id: MessageId | None
    """The JMSMessageID: the client's, or the broker's if the client gave none; None: the message has none."""

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {} if self.message_id is None else {"message-id": self.message_id}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Sent:
        """Parse the headers of an answer."""
        text = headers.get("message-id")
        return cls(None if text is None else MessageId(text))


@dataclass(frozen=True, slots=True)
class Drained:
    """For CREDIT with `drain` or `revoke`."""

    left: int
    """The credit that was dropped."""

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"left": str(self.left)}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Drained:
        """Parse the headers of an answer. Raises `CommandError`."""
        return cls(number_in(headers, "left"))


@dataclass(frozen=True, slots=True)
class Created:
    """For CREATE."""

    address: Address

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return EXACT_PATHS.headers_for(self.address)

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Created:
        """Parse the headers of an answer. Raises `CommandError`."""
        try:
            return cls(EXACT_PATHS.read(headers))
        except DestinationError as error:
            raise CommandError(f"the broker's answer names no destination: {error.reason}") from error


@dataclass(frozen=True, slots=True)
class Found:
    """For FIND."""

    is_there: bool

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"found": "true" if self.is_there else "false"}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Found:
        """Parse the headers of an answer. Raises `CommandError`."""
        found = headers.get("found")
        if found not in ("true", "false"):
            raise CommandError("the broker's answer to FIND does not say whether it is there")
        return cls(found == "true")


@dataclass(frozen=True, slots=True)
class Prepared:
    """For PREPARE."""

    needs_commit: bool
    """False: the branch has nothing to commit, and has ended."""

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"result": "prepared" if self.needs_commit else "read-only"}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Prepared:
        """Parse the headers of an answer. Raises `CommandError`."""
        result = headers.get("result")
        if result not in ("prepared", "read-only"):
            raise CommandError("the broker's answer to PREPARE has no result")
        return cls(result == "prepared")


@dataclass(frozen=True, slots=True)
class Noted:
    """For NOTE."""

    notes: Sequence[str]

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"notes": _dump(sorted(self.notes))}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Noted:
        """Parse the headers of an answer. Raises `CommandError`."""
        try:
            return cls(TEXTS.read(headers.get("notes", "")))
        except ValueError as error:
            raise CommandError("the broker's answer to NOTE has no notes") from error


@dataclass(frozen=True, slots=True)
class Recovered:
    """For RECOVER."""

    xids: Sequence[Xid]

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"xids": ",".join(map(str, self.xids))}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Recovered:
        """Parse the headers of an answer. Raises `CommandError`."""
        text = headers.get("xids", "")
        try:
            return cls(tuple(Xid.parse(part) for part in text.split(",")) if text else ())
        except ValueError as error:
            raise CommandError(f"the broker's answer names a branch wrongly: {error}") from error


PERSISTS_ALL: Final = "persist-all"
"""The header of CONNECTED that says that the broker writes all messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What CONNECTED says to a pyjms client in addition to the usual headers: `session` is the connection's id."""

    capabilities: Capability
    resource_manager: str
    """Connections with an equal one can work in one branch."""
    transaction_timeout_s: int = 0
    """How many seconds a branch may take until it is prepared, unless BEGIN sets another limit; 0: no limit."""
    jmsx_property_names: tuple[str, ...] = ()
    advice: Mapping[Capability, str] = field(default_factory=dict)
    """What the broker's owner can do to give connections a capability that this one lacks."""
    can_find: bool = False
    """Whether the broker knows FIND."""
    can_prepare: bool = False
    """Whether the broker can prepare the open transaction of a session."""
    body_max: int = 0
    """The largest body of a frame to the broker, in bytes; 0: not known. A larger one ends the connection."""
    persists_all: bool = False
    """Whether the broker writes NON_PERSISTENT messages as PERSISTENT ones, so that their senders wait for the answer, too."""

    def headers(self) -> dict[str, str]:
        """Return the headers of CONNECTED, except `pyjms-profile`. CONNECTED has no escapes."""
        headers = {
            "pyjms-profile": "1",
            "capabilities": ",".join(each.name or "" for each in self.capabilities),
            "resource-manager": self.resource_manager,
            "transaction-timeout": str(self.transaction_timeout_s),
            "jmsx": ",".join(self.jmsx_property_names),
        }
        if self.can_find:
            headers["find"] = "true"
        if self.can_prepare:
            headers["prepare"] = "true"
        if self.persists_all:
            headers[PERSISTS_ALL] = "true"
        if self.body_max:
            headers[_BODY_MAX] = str(self.body_max)
        for capability, text in self.advice.items():
            # CONNECTED has no escapes, so a line end would begin another header.
            headers[f"advice-{capability.name}"] = text.replace("\n", " ")
        return headers

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Greeting:
        """Return the greeting in CONNECTED. Unknown capabilities are left out. Raises `CommandError`."""
        names = Capability.__members__
        capabilities = Capability.NONE
        for name in headers.get("capabilities", "").split(","):
            # A newer broker may have capabilities that this client does not know, and cannot use.
            capabilities |= names.get(name, Capability.NONE)
        prefix = "advice-"
        return cls(
            capabilities=capabilities,
            resource_manager=headers.get("resource-manager", ""),
            transaction_timeout_s=number_in(headers, "transaction-timeout"),
            can_find=headers.get("find") == "true",
            can_prepare=headers.get("prepare") == "true",
            body_max=body_max_in(headers),
            persists_all=headers.get(PERSISTS_ALL) == "true",
            jmsx_property_names=tuple(name for name in headers.get("jmsx", "").split(",") if name),
            advice={
                names[header[len(prefix) :]]: text
                for header, text in headers.items()
                if header.startswith(prefix) and header[len(prefix) :] in names
            },
        )


_GROUP_TYPES = {
    "name": (str,), "kind": (str,), "destination": (str,), "subscription": (str, type(None)),
    "client-id": (str, type(None)), "selector": (str, type(None)), "generation": (str,), "low": (int,), "high": (int,),
}  # fmt: skip
_LIST_MAX = 2 * 1024 * 1024
"""The most characters of a list, which a header can hold even if all are escaped; the rest is left out."""


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
        raise CommandError(f"the broker's answer has no list of {name}: {error}") from error
    if not isinstance(rows, list):
        raise CommandError(f"the broker's answer has no list of {name}")
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
        raise CommandError("the broker's answer tells of a reader group wrongly")
    kind = AddressKind.__members__.get(row["kind"].upper())
    if kind is None:
        raise CommandError("the broker's answer tells of a reader group of no queue and no topic")
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
        """Return the headers of the answer."""
        return {"fence": str(self.opened.fence), "groups": _dump([_group_row(self.opened.group)])}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> GroupOpened:
        """Parse the headers of an answer. Raises `CommandError`."""
        (group,) = map(_read_group, _load(headers, "groups")[:1])
        return cls(OpenGroup(group=group, fence=number_in(headers, "fence")))


@dataclass(frozen=True, slots=True)
class GroupsListed:
    """For GROUPS."""

    groups: Sequence[ReaderGroup]

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"groups": _dump([_group_row(group) for group in self.groups])}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> GroupsListed:
        """Parse the headers of an answer. Raises `CommandError`."""
        return cls(tuple(map(_read_group, _load(headers, "groups"))))


@dataclass(frozen=True, slots=True)
class Reserved:
    """For RESERVE."""

    high: int

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"high": str(self.high)}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Reserved:
        """Parse the headers of an answer. Raises `CommandError`."""
        return cls(number_in(headers, "high"))


@dataclass(frozen=True, slots=True)
class Counted:
    """For READ, RELEASE and STAGE: the number of messages."""

    messages: int

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"messages": str(self.messages)}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Counted:
        """Parse the headers of an answer. Raises `CommandError`."""
        return cls(number_in(headers, "messages"))


@dataclass(frozen=True, slots=True)
class Promoted:
    """For PROMOTE."""

    is_new: bool
    """False: an earlier request had done it."""

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"result": "promoted" if self.is_new else "known"}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Promoted:
        """Parse the headers of an answer. Raises `CommandError`."""
        result = headers.get("result")
        if result not in ("promoted", "known"):
            raise CommandError("the broker's answer to PROMOTE has no result")
        return cls(result == "promoted")


@dataclass(frozen=True, slots=True)
class MarkerRead:
    """For MARKER."""

    epoch: int | None

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {} if self.epoch is None else {"epoch": str(self.epoch)}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> MarkerRead:
        """Parse the headers of an answer. Raises `CommandError`."""
        return cls(number_in(headers, "epoch") if "epoch" in headers else None)


@dataclass(frozen=True, slots=True)
class UnitsListed:
    """For UNITS."""

    units: Sequence[StagedUnit]

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        rows = [
            [stage_name_row(unit.name), unit.messages, unit.staged_ms, unit.discarded_after_ms] for unit in self.units
        ]
        return {"units": _dump(rows)}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> UnitsListed:
        """Parse the headers of an answer. Raises `CommandError`."""
        try:
            return cls(tuple(map(_read_unit, _load(headers, "units"))))
        except ValueError as error:
            raise CommandError("the broker's answer tells of a staged unit wrongly") from error


def _read_unit(row: Any) -> StagedUnit:
    if not (isinstance(row, list) and list(map(type, row)) == [list, int, int, int]):
        raise ValueError
    name, messages, staged_ms, discarded_after_ms = row
    return StagedUnit(
        name=read_stage_name(name), messages=messages, staged_ms=staged_ms, discarded_after_ms=discarded_after_ms
    )


_CLIENT_TYPES = {
    "name": (str,), "generation": (str,), "incarnation": (int,), "request-tag": (str, type(None)), "request-ms": (int,),
    "reply-tag": (str, type(None)), "reply-ms": (int,), "registered-ms": (int,), "left-ms": (int, type(None)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClientsListed:
    """For REGISTER, with one client, and CLIENTS."""

    clients: Sequence[RegisteredClient]

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"clients": _dump([_client_row(client) for client in self.clients])}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> ClientsListed:
        """Parse the headers of an answer. Raises `CommandError`."""
        return cls(tuple(map(_read_client, _load(headers, "clients"))))

    def only(self) -> RegisteredClient:
        """Return the client of an answer to REGISTER. Raises `CommandError`."""
        if len(self.clients) != 1:
            raise CommandError("the broker's answer to REGISTER has not one client")
        return self.clients[0]


def _client_row(client: RegisteredClient) -> dict[str, Any]:
    return {name: getattr(client, name.replace("-", "_")) for name in _CLIENT_TYPES}


def _read_client(row: Any) -> RegisteredClient:
    if not isinstance(row, dict) or any(type(row.get(name)) not in types for name, types in _CLIENT_TYPES.items()):
        raise CommandError("the broker's answer tells of a registered client wrongly")
    return RegisteredClient(**{name.replace("-", "_"): row[name] for name in _CLIENT_TYPES})


_OURS = "PYJMS-"
_CAUSE = "cause"
_KIND = "kind"


def _all_classes(root: type[ProviderError]) -> dict[str, type[ProviderError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        if child.__module__ == ProviderError.__module__:  # other modules may have added their own
            found.update(_all_classes(child))
    return found


_BY_CODE: Mapping[str, type[ProviderError]] = _all_classes(ProviderError)
_KINDS = frozenset(_BY_CODE.values())


def _kind_of(error: ProviderError) -> str:
    """Return the code of an error's class of the SPI, or of its nearest base class there."""
    return next(kind.code for kind in type(error).__mro__ if kind in _KINDS)


def error_headers(error: ProviderError) -> dict[str, str]:
    """Return the headers from which `error_of` rebuilds the error, with its `reason`."""
    headers = {"code": error.code}
    if error.code not in _BY_CODE:
        headers[_KIND] = _kind_of(error)
    if isinstance(error, BranchError):
        headers["failure"] = error.failure.name
    elif isinstance(error, InvalidSelectorError):
        headers |= {
            "problem": readable(error.problem),
            "selector": readable(error.selector),
            "position": str(error.position),
        }
    elif isinstance(error, RolledBackError) and isinstance(error.__cause__, ProviderError):
        headers[_CAUSE] = _kind_of(error.__cause__)
    return headers


def error_of(headers: Mapping[str, str], reason: str) -> ProviderError:
    """Return the error of these headers: of its own class if its code is known, else of its base class in the SPI, or `ProviderError`, with
    that code.

    Args:
        headers: those of `error_headers`.
        reason: that of the error; empty: the broker did not say it.
    """
    reason = reason or "the broker refused without saying why"
    code = headers.get("code", "")
    # A code of the broker's own, or of a newer one, is unknown here: the header `kind` names the class of the SPI.
    kind = _BY_CODE.get(code) or _BY_CODE.get(headers.get(_KIND, ""), ProviderError)
    if kind is BranchError:
        failure = BranchFailure.__members__.get(headers.get("failure", ""), BranchFailure.FAILED)
        return BranchError(reason, failure)
    if kind is InvalidSelectorError:
        return _selector_error(headers, reason)
    error = kind(reason)
    if code.startswith(_OURS):
        vars(error)["code"] = code  # of the instance: the class has the code of its kind
    if kind is RolledBackError and _CAUSE in headers:  # the reason has both errors
        error.__cause__ = _BY_CODE.get(headers[_CAUSE], ProviderError)(reason)
    return error


def _selector_error(headers: Mapping[str, str], reason: str) -> ProviderError:
    position, selector = headers.get("position", ""), headers.get("selector", "")
    if position.isascii() and position.isdigit() and len(position) < 10:
        return InvalidSelectorError(headers.get("problem", reason), selector, min(int(position), len(selector)))
    return InvalidSelectorError(reason, selector, 0)
