"""The verbs of the pyjms profile: what a pyjms client asks of the pyjms broker beyond plain STOMP, as facts.

Each verb is one class, which both sides use: `Verb.write` makes the frame of it, `read_verb` makes it of a frame. SEND
and MESSAGE are messages (`profile`); what a RECEIPT says stands in `answers`, what an ERROR says in `wire_errors`.
docs/reference/stomp.md specifies what each verb does; each docstring names the call of the SPI that it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import ClassVar

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.xid import Xid
from pyjms_provider.protocols.stomp.delivery_ids import DeliveryIds
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.limits import Limits
from pyjms_provider.protocols.stomp.pipeline_verbs import (
    PIPELINE_VERBS,
    AcknowledgeGroup,
    DiscardUnits,
    ListGroups,
    ListUnits,
    OpenReaderGroup,
    PromoteEpoch,
    ReadGroup,
    ReadMarker,
    ReleaseGroup,
    ReserveMessages,
    StageTransaction,
)
from pyjms_provider.protocols.stomp.verb_headers import (
    ADDRESS,
    FLAG,
    IDS,
    KIND,
    NUMBER,
    TEXT,
    WHOLE,
    XID,
    Verb,
    choice,
    header,
    verb,
)

__all__ = [
    "PACKED_LIMITS",
    "PIPELINE_VERBS",
    "PROFILE_LIMITS",
    "PROFILE_VERSION",
    "AbortTransaction",
    "Acknowledge",
    "AcknowledgeGroup",
    "Adopt",
    "BeginBranch",
    "BeginMode",
    "Browse",
    "CloseSession",
    "CommitBranch",
    "CommitTransaction",
    "CreateTemporary",
    "Credit",
    "DeleteSubscription",
    "DeleteTemporary",
    "DiscardUnits",
    "EndBranch",
    "EndMode",
    "Find",
    "ForgetBranch",
    "GiveBack",
    "Identify",
    "Interrupt",
    "ListGroups",
    "ListUnits",
    "OpenReaderGroup",
    "OpenSession",
    "PrepareBranch",
    "PromoteEpoch",
    "ReadGroup",
    "ReadMarker",
    "RecoverBranches",
    "Reject",
    "ReleaseGroup",
    "ReserveMessages",
    "Retry",
    "RollbackBranch",
    "StageTransaction",
    "Start",
    "Stop",
    "Subscribe",
    "Unsubscribe",
    "Verb",
    "limits_of",
    "read_verb",
]

PROFILE_VERSION = "1"
"""The value of the header `pyjms-profile` of CONNECT and CONNECTED."""

PROFILE_LIMITS = Limits(header_line_max=4 * 1024 * 1024, header_count_max=20_000, header_size_max=8 * 1024 * 1024)
"""What both sides of a profile connection take: JMS limits neither the length of a property nor their number."""
PACKED_LIMITS = replace(PROFILE_LIMITS, body_max=PROFILE_LIMITS.body_max + PROFILE_LIMITS.header_size_max)
"""The same where a message and its properties are one body."""


def limits_of(*, is_packed: bool) -> Limits:
    """Return what the broker takes of a pyjms client."""
    return PACKED_LIMITS if is_packed else PROFILE_LIMITS


# The connection


@verb
class Identify(Verb):
    """`ProviderConnection.set_client_id`."""

    COMMAND: ClassVar[str] = "IDENTIFY"
    client_id: str = header("client-id", TEXT)


@verb
class Start(Verb):
    """`ProviderConnection.start`."""

    COMMAND: ClassVar[str] = "START"


@verb
class Stop(Verb):
    """`ProviderConnection.stop`: after its RECEIPT comes no message until START."""

    COMMAND: ClassVar[str] = "STOP"


@verb
class CreateTemporary(Verb):
    """`ProviderConnection.create_temporary`; the RECEIPT has the destination (`answers.Created`)."""

    COMMAND: ClassVar[str] = "CREATE"
    kind: AddressKind = header("kind", KIND)


@verb
class DeleteTemporary(Verb):
    """`ProviderConnection.delete_temporary`."""

    COMMAND: ClassVar[str] = "DELETE"
    address: Address = header("destination", ADDRESS)


# Sessions


@verb
class OpenSession(Verb):
    """`ProviderConnection.open_session`; the client chooses the name."""

    COMMAND: ClassVar[str] = "SESSION"
    session: str = header("session", TEXT)
    transacted: bool = header("transacted", FLAG, default=False)


@verb
class CloseSession(Verb):
    """`ProviderSession.close`."""

    COMMAND: ClassVar[str] = "ENDSESSION"
    session: str = header("session", TEXT)


@verb
class Interrupt(Verb):
    """`ProviderSession.end_waits`: heeded as soon as it is read, before frames of the session that wait."""

    COMMAND: ClassVar[str] = "INTERRUPT"
    session: str = header("session", TEXT)


@verb
class CommitTransaction(Verb):
    """`ProviderSession.commit`."""

    COMMAND: ClassVar[str] = "COMMIT"
    session: str = header("session", TEXT)


@verb
class AbortTransaction(Verb):
    """`ProviderSession.rollback`."""

    COMMAND: ClassVar[str] = "ABORT"
    session: str = header("session", TEXT)


# Consumers


@verb
class Subscribe(Verb):
    """`ProviderSession.subscribe`. The consumer has no credit yet."""

    COMMAND: ClassVar[str] = "SUBSCRIBE"
    session: str = header("session", TEXT)
    id: str = header("id", TEXT)
    address: Address = header("destination", ADDRESS)
    selector: str | None = header("selector", TEXT, default=None)
    no_local: bool = header("no-local", FLAG, default=False)
    durable_name: str | None = header("durable-subscription-name", TEXT, default=None)
    priority: int = header("consumer-priority", NUMBER, default=0)


@verb
class Browse(Verb):
    """`ProviderSession.browse`: a consumer that looks, and is told with `browser:end` that it has seen all."""

    COMMAND: ClassVar[str] = "SUBSCRIBE"
    MARK: ClassVar[tuple[str, str | None] | None] = ("browser", "true")
    session: str = header("session", TEXT)
    id: str = header("id", TEXT)
    address: Address = header("destination", ADDRESS)
    selector: str | None = header("selector", TEXT, default=None)


@verb
class Find(Verb):
    """`ProviderSession.has_destination`; the RECEIPT says it (`answers.Found`). Only a broker whose CONNECTED says `find:true` knows it."""

    COMMAND: ClassVar[str] = "FIND"
    session: str = header("session", TEXT)
    address: Address = header("destination", ADDRESS)


@verb
class Credit(Verb):
    """`ProviderConsumer.poll`, `ProviderConsumer.catch_up` and `set_interested`: how many messages more the broker may push."""

    COMMAND: ClassVar[str] = "CREDIT"
    subscription: str = header("subscription", TEXT)
    credit: int = header("credit", WHOLE, default=0)
    """Added to what is left."""
    drain: bool = header("drain", FLAG, default=False)
    """Push what is there now, take the rest of the credit back, and say in the RECEIPT how much that was."""
    revoke: bool = header("revoke", FLAG, default=False)
    """As `drain`, but push nothing more."""


@verb
class Unsubscribe(Verb):
    """`ProviderConsumer.close`, also of a browser."""

    COMMAND: ClassVar[str] = "UNSUBSCRIBE"
    id: str = header("id", TEXT)


@verb
class DeleteSubscription(Verb):
    """`ProviderSession.unsubscribe`: delete a durable subscription that nobody consumes from."""

    COMMAND: ClassVar[str] = "UNSUBSCRIBE"
    MARK: ClassVar[tuple[str, str | None] | None] = ("durable-subscription-name", None)
    session: str = header("session", TEXT)
    durable_name: str = header("durable-subscription-name", TEXT)


# Deliveries


@verb
class Acknowledge(Verb):
    """`ProviderSession.acknowledge`."""

    COMMAND: ClassVar[str] = "ACK"
    session: str = header("session", TEXT)
    ids: DeliveryIds = header("ids", IDS)


@verb
class GiveBack(Verb):
    """`ProviderSession.recover`: to their old places, marked redelivered. Or `ProviderSession.give_back_unseen`."""

    COMMAND: ClassVar[str] = "RETURN"
    session: str = header("session", TEXT)
    ids: DeliveryIds = header("ids", IDS)
    unseen: bool = header("unseen", FLAG, default=False)
    """The application never saw them: they are not marked, and this delivery does not count."""


@verb
class Retry(Verb):
    """`ProviderSession.retry`."""

    COMMAND: ClassVar[str] = "RETRY"
    session: str = header("session", TEXT)
    ids: DeliveryIds = header("ids", IDS)
    reason: str = header("reason", TEXT, default="")


@verb
class Reject(Verb):
    """`ProviderSession.reject`."""

    COMMAND: ClassVar[str] = "REJECT"
    session: str = header("session", TEXT)
    ids: DeliveryIds = header("ids", IDS)
    reason: str = header("reason", TEXT, default="")


@verb
class Adopt(Verb):
    """`ProviderSession.adopt`: `session` takes over what other sessions of the connection received."""

    COMMAND: ClassVar[str] = "ADOPT"
    session: str = header("session", TEXT)
    ids: DeliveryIds = header("ids", IDS)


# Branches of distributed transactions


class BeginMode(Enum):
    """How a session begins to work in a branch (X/Open XA)."""

    NEW = "new"
    JOIN = "join"
    RESUME = "resume"


class EndMode(Enum):
    """How its work there ends."""

    SUCCESS = "success"
    SUSPEND = "suspend"
    FAIL = "fail"


_BRANCH = ("xid", None)


@verb
class BeginBranch(Verb):
    """`ProviderSession.xa_start`; `timeout_s` is what `xa_set_timeout` was told, 0: the broker's own."""

    COMMAND: ClassVar[str] = "BEGIN"
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)
    mode: BeginMode = header("mode", choice(BeginMode), default=BeginMode.NEW)
    timeout_s: int = header("timeout", WHOLE, default=0)


@verb
class EndBranch(Verb):
    """`ProviderSession.xa_end`."""

    COMMAND: ClassVar[str] = "END"
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)
    mode: EndMode = header("mode", choice(EndMode), default=EndMode.SUCCESS)


@verb
class PrepareBranch(Verb):
    """`ProviderSession.xa_prepare`; the RECEIPT says whether a commit is needed (`answers.Prepared`)."""

    COMMAND: ClassVar[str] = "PREPARE"
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)


@verb
class CommitBranch(Verb):
    """`ProviderSession.xa_commit`."""

    COMMAND: ClassVar[str] = "COMMIT"
    MARK: ClassVar[tuple[str, str | None] | None] = _BRANCH
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)
    one_phase: bool = header("one-phase", FLAG, default=False)


@verb
class RollbackBranch(Verb):
    """`ProviderSession.xa_rollback`."""

    COMMAND: ClassVar[str] = "ABORT"
    MARK: ClassVar[tuple[str, str | None] | None] = _BRANCH
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)


@verb
class RecoverBranches(Verb):
    """`ProviderSession.xa_recover`; the RECEIPT has the branches (`answers.Recovered`)."""

    COMMAND: ClassVar[str] = "RECOVER"
    session: str = header("session", TEXT)


@verb
class ForgetBranch(Verb):
    """`ProviderSession.xa_forget`."""

    COMMAND: ClassVar[str] = "FORGET"
    session: str = header("session", TEXT)
    xid: Xid = header("xid", XID)


VERBS: tuple[type[Verb], ...] = (
    Identify, Start, Stop, CreateTemporary, DeleteTemporary,
    OpenSession, CloseSession, Interrupt, CommitTransaction, AbortTransaction,
    Subscribe, Browse, Find, Credit, Unsubscribe, DeleteSubscription,
    Acknowledge, GiveBack, Retry, Reject, Adopt,
    BeginBranch, EndBranch, PrepareBranch, CommitBranch, RollbackBranch, RecoverBranches, ForgetBranch,
    *PIPELINE_VERBS,
)  # fmt: skip
"""All of them."""


def _by_command() -> Mapping[str, tuple[type[Verb], ...]]:
    """Return the verbs of each command, those that a mark tells apart first."""
    found: dict[str, list[type[Verb]]] = {}
    for kind in sorted(VERBS, key=lambda kind: kind.MARK is None):
        found.setdefault(kind.COMMAND, []).append(kind)
    return {command: tuple(verbs) for command, verbs in found.items()}


_BY_COMMAND = _by_command()


def read_verb(frame: Frame) -> Verb:
    """Return what `frame` says. Raises `ProfileError`: no verb of the profile, or a header is missing or wrong."""
    kinds = _BY_COMMAND.get(frame.command)
    if kinds is None:
        raise ProfileError(f"{frame.command} is no verb of the pyjms profile", receipt=frame.headers.get("receipt"))
    kind = kinds[0] if len(kinds) == 1 else next(kind for kind in kinds if _is_meant(kind, frame.headers))
    return kind.from_headers(frame)


def _is_meant(kind: type[Verb], headers: Mapping[str, str]) -> bool:
    """Say whether a frame with these headers, and the command of `kind`, is one of `kind`."""
    if kind.MARK is None:
        return True
    if kind is DeleteSubscription and "id" in headers:
        return False  # it ends a consumer, whatever else it names
    name, value = kind.MARK
    return name in headers and value in (None, headers[name])
