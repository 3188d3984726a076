"""What RECEIPT says beyond its id, for the verbs that ask something; and what CONNECTED says to a pyjms client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, MessageId
from pyjms.spi.errors import DestinationError
from pyjms.spi.xid import Xid
from pyjms_provider.protocols.stomp.destinations import EXACT_PATHS
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.frames import Frame

__all__ = [
    "Created",
    "Drained",
    "Found",
    "Greeting",
    "Prepared",
    "Recovered",
    "Sent",
    "body_max_in",
    "number_in",
    "receipt_frame",
]

_BODY_MAX = "body-max"


def receipt_frame(receipt: str, headers: Mapping[str, str] | None = None) -> Frame:
    """Return the RECEIPT for `receipt`; `headers` as one of the facts of this module writes them."""
    return Frame("RECEIPT", {"receipt-id": receipt, **(headers or {})})


def number_in(headers: Mapping[str, str], name: str) -> int:
    """Return a number that an answer says. Raises `ProfileError`."""
    text = headers.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise ProfileError(f"the broker's answer lacks the number {name}")
    return int(text)


def body_max_in(headers: Mapping[str, str]) -> int:
    """Return how many bytes the body of a frame may have, as CONNECTED says; 0: it does not say. Raises `ProfileError`."""
    return number_in(headers, _BODY_MAX) if _BODY_MAX in headers else 0


@dataclass(frozen=True, slots=True)
class Sent:
    """For SEND."""

    message_id: MessageId | None
    """The JMSMessageID: the client's, or the broker's where the client gave none; None: it shall have none."""

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {} if self.message_id is None else {"message-id": self.message_id}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Sent:
        """Return what a RECEIPT says."""
        text = headers.get("message-id")
        return cls(None if text is None else MessageId(text))


@dataclass(frozen=True, slots=True)
class Drained:
    """For CREDIT with `drain` or `revoke`."""

    left: int
    """The credit that was taken back."""

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {"left": str(self.left)}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Drained:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        return cls(number_in(headers, "left"))


@dataclass(frozen=True, slots=True)
class Created:
    """For CREATE."""

    address: Address

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return EXACT_PATHS.headers_for(self.address)

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Created:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        try:
            return cls(EXACT_PATHS.read(headers))
        except DestinationError as error:
            raise ProfileError(f"the broker's answer names no destination: {error.reason}") from error


@dataclass(frozen=True, slots=True)
class Found:
    """For FIND."""

    is_there: bool

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {"found": "true" if self.is_there else "false"}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Found:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        found = headers.get("found")
        if found not in ("true", "false"):
            raise ProfileError("the broker's answer to FIND does not say whether it is there")
        return cls(found == "true")


@dataclass(frozen=True, slots=True)
class Prepared:
    """For PREPARE."""

    needs_commit: bool
    """False: the branch did nothing that a commit could add to, and is over."""

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {"result": "prepared" if self.needs_commit else "read-only"}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Prepared:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        result = headers.get("result")
        if result not in ("prepared", "read-only"):
            raise ProfileError("the broker's answer to PREPARE has no result")
        return cls(result == "prepared")


@dataclass(frozen=True, slots=True)
class Recovered:
    """For RECOVER."""

    xids: Sequence[Xid]

    def headers(self) -> dict[str, str]:
        """Return what RECEIPT says."""
        return {"xids": ",".join(map(str, self.xids))}

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Recovered:
        """Return what a RECEIPT says. Raises `ProfileError`."""
        text = headers.get("xids", "")
        try:
            return cls(tuple(Xid.parse(part) for part in text.split(",")) if text else ())
        except ValueError as error:
            raise ProfileError(f"the broker's answer names a branch wrongly: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What CONNECTED says to a pyjms client, beside what it says to all: `session` is the connection's id."""

    capabilities: Capability
    resource_manager: str
    """Connections of equal ones can work in one branch."""
    transaction_timeout_s: int = 0
    """The time that a branch has until it is prepared, unless BEGIN says another; 0: for ever."""
    jmsx_property_names: tuple[str, ...] = ()
    advice: Mapping[Capability, str] = field(default_factory=dict)
    """What the broker's owner can do so that connections have a capability that this one lacks."""
    can_find: bool = False
    """Whether the broker knows FIND."""
    body_max: int = 0
    """Bytes that the body of a frame to the broker may have; 0: it does not say. A larger one ends the connection."""

    def headers(self) -> dict[str, str]:
        """Return what CONNECTED says; it has to say `pyjms-profile`, too. In CONNECTED nothing is escaped."""
        headers = {
            "pyjms-profile": "1",
            "capabilities": ",".join(each.name or "" for each in self.capabilities),
            "resource-manager": self.resource_manager,
            "transaction-timeout": str(self.transaction_timeout_s),
            "jmsx": ",".join(self.jmsx_property_names),
        }
        if self.can_find:
            headers["find"] = "true"
        if self.body_max:
            headers[_BODY_MAX] = str(self.body_max)
        for capability, text in self.advice.items():
            headers[f"advice-{capability.name}"] = text.replace("\n", " ")
        return headers

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Greeting:
        """Return what CONNECTED says. Capabilities that are not known here are left out. Raises `ProfileError`."""
        names = Capability.__members__
        capabilities = Capability.NONE
        for name in headers.get("capabilities", "").split(","):
            capabilities |= names.get(name, Capability.NONE)
        prefix = "advice-"
        return cls(
            capabilities=capabilities,
            resource_manager=headers.get("resource-manager", ""),
            transaction_timeout_s=number_in(headers, "transaction-timeout"),
            can_find=headers.get("find") == "true",
            body_max=body_max_in(headers),
            jmsx_property_names=tuple(name for name in headers.get("jmsx", "").split(",") if name),
            advice={
                names[header[len(prefix) :]]: text
                for header, text in headers.items()
                if header.startswith(prefix) and header[len(prefix) :] in names
            },
        )
