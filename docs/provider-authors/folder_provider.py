"""A provider that keeps messages in a folder: ``folder:///path/to/dir``. Each queue a sub-folder, each message a file.

    DIR/queues/QUEUE/5-SEQUENCE-CONNECTION.0.json      waits; names sort by priority, then by age
    DIR/claims/CONNECTION/QUEUE/5-SEQUENCE-….1.json    delivered, here for the first time; CONNECTION is locked (flock)
    DIR/clients/ID                                     locked by the connection that has this client identifier
    DIR/aside/                                         what cannot be read and what was rejected, with the reason

Each step is one rename or one unlink, which happens wholly or not at all. So processes share a folder without speaking
to each other: to deliver is to move a file to one's claims, to acknowledge is to delete it there, to give it back is to
move it home. A lock ends with its process; a connection that opens gives back what the dead had claimed.

For local file systems with POSIX locks. What a process may do is decided by its rights, not by credentials.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread, current_thread
from types import MappingProxyType, NoneType
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from pyjms import spi
from pyjms.spi import Address, AddressKind, BodyKind, Capability, Delivery, Envelope, errors
from pyjms.spi.selector import Selector
from pyjms.types import Byte, Char, Float, Int, Long, Short, Stored

# [messages as JSON]

FORMAT_VERSION = 1
FILE_BYTES_MAX = 64 * 2**20

_HEADERS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("message_id", "jms_type"), (str, NoneType)),
    **dict.fromkeys(("timestamp_ms", "expiration_ms", "delivery_mode", "priority"), (int,)),
}
_BODIES: dict[BodyKind, tuple[type, ...]] = {
    BodyKind.NONE: (NoneType,),
    BodyKind.TEXT: (str, NoneType),
    BodyKind.BYTES: (bytes,),
    BodyKind.OBJECT: (bytes, NoneType),
}
_KINDS: dict[str, tuple[type, type]] = {
    "byte": (Byte, int),
    "short": (Short, int),
    "long": (Long, int),
    "float": (Float, float),
    "char": (Char, str),
}
_TAGS: dict[type, str] = {kind: tag for tag, (kind, _) in _KINDS.items()}
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError, PermissionError, IsADirectoryError)


def encode(envelope: Envelope) -> bytes:
    """Return the content of a message's file. The destination is left out: it is the folder that the file is in."""
    body, reply_to = envelope.body, envelope.reply_to
    content: dict[str, object] = {"version": FORMAT_VERSION}
    content |= {name: getattr(envelope, name) for name in _HEADERS}
    content["correlation_id"] = _pack(envelope.correlation_id)
    content["reply_to"] = reply_to and [reply_to.kind.name, reply_to.name, reply_to.temporary]
    content["properties"] = _pack(envelope.properties)
    content["body_kind"] = envelope.body_kind.name
    content["body"] = _pack(body.data if isinstance(body, spi.ObjectBody) else body)
    return json.dumps(content).encode("ascii")


def decode(data: bytes, destination: Address) -> Envelope:
    """Return the envelope in a file's content. Whatever is wrong with it raises one of `_UNREADABLE`."""
    content: dict[str, Any] = json.loads(data)
    if content["version"] != FORMAT_VERSION:
        raise ValueError(f"its format has version {content['version']!r}; this reader knows {FORMAT_VERSION}")
    headers: dict[str, Any] = {name: _typed(content[name], *kinds) for name, kinds in _HEADERS.items()}
    kind, reply_to = BodyKind[content["body_kind"]], content["reply_to"]
    if reply_to is not None:
        reply_to = Address(AddressKind[reply_to[0]], _typed(reply_to[1], str), _typed(reply_to[2], bool))
    return Envelope(
        **headers,
        destination=destination,
        correlation_id=_typed(_unpack(content["correlation_id"]), str, bytes, NoneType),
        reply_to=reply_to,
        properties=_unpack_map(content["properties"]),
        body_kind=kind,
        body=_unpack_body(kind, content["body"]),
    )


def _pack(value: spi.Body | Stored) -> object:
    """Return `value` as JSON has it; a scalar that JSON has not becomes [type, value]."""
    if isinstance(value, bytes):
        return ["bytes", b64encode(value).decode("ascii")]
    if isinstance(value, Mapping):
        return {name: _pack(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_pack(each) for each in value]
    tag = _TAGS.get(type(value))
    return value if tag is None else [tag, value]


def _unpack_body(kind: BodyKind, packed: Any) -> spi.Body:
    if kind is BodyKind.MAP:
        return _unpack_map(packed)
    if kind is BodyKind.STREAM:
        return tuple(_unpack(each) for each in _typed(packed, list))
    body = _typed(_unpack(packed), *_BODIES[kind])
    # a pickle that left its process: the runtime decodes it for classes only that the application trusts
    return spi.ObjectBody(body, local=False) if kind is BodyKind.OBJECT and body is not None else body


def _unpack_map(packed: Any) -> Mapping[str, Stored]:
    return MappingProxyType({name: _unpack(each) for name, each in packed.items()})


def _unpack(packed: Any) -> Stored:
    if isinstance(packed, list):
        tag, value = packed
        if tag == "bytes":
            return b64decode(value, validate=True)
        kind, plain = _KINDS[tag]
        return kind(_typed(value, plain))  # type: ignore[no-any-return]
    if type(packed) is int:
        Int(packed)  # a plain int is an Int: raises ValueError for a larger one
    return _typed(packed, bool, int, float, str, NoneType)  # type: ignore[no-any-return]


def _typed(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise ValueError(f"{value!r} stands where {' or '.join(kind.__name__ for kind in kinds)} is expected")
    return value


# [messages as files]

_MESSAGE = re.compile(r"[0-9]-[0-9]{20}-[0-9a-f]{32}\.[0-9]{1,9}\.json")
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_NAME_LENGTH_MAX = 200


def to_file_name(name: str) -> str:
    """Return `name` encoded so that no two names are one file, on any file system, and none leads out of its folder."""
    encoded = "".join(chr(b) if b in _PLAIN else f"%{b:02x}" for b in name.encode("utf-8", "surrogatepass"))
    if not 0 < len(encoded) <= _NAME_LENGTH_MAX:
        raise errors.DestinationError(f"{name!r} cannot name a file: it takes 1 to {_NAME_LENGTH_MAX} characters there")
    return encoded


def count_of(path: Path) -> int:
    """Return how often a message was delivered, as the name of its file says."""
    return int(path.name.split(".")[1])


def sync(place: Path) -> None:
    """Make what came into a folder, and went from it, outlive a loss of power."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(place: Path) -> Iterator[bool]:
    """Lock a folder until the block, or this process, ends; False inside means that somebody else has it."""
    descriptor, mine = os.open(place, os.O_RDONLY), False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        yield mine
    finally:
        os.close(descriptor)


class _Folder:
    """The files as one connection handles them. Any thread: what somebody else was faster at is no error."""

    _sequence_lock = Lock()
    _sequence = 0

    def __init__(self, root: Path, clock: spi.Clock, report: Callable[[errors.ProviderError], None]) -> None:
        self.owner = uuid4().hex
        self._root, self._clock, self._report = root, clock, report
        if not root.parent.exists():
            raise errors.ResourceError(
                f"the folder cannot be used: there is no {root.parent} to hold it; make that first"
            )
        for place in (root, *(root / name for name in ("queues", "claims", "clients", "aside"))):
            place.mkdir(exist_ok=True)
        for claims in (root / "claims").glob("[!.]*"):
            with suppress(OSError), locked(claims) as owner_is_dead:
                if owner_is_dead:
                    self._give_back_all(claims)
        new = root / "claims" / f".{self.owner}"  # left alone by others until it is locked
        new.mkdir()
        self._locks = ExitStack()
        self._locks.enter_context(locked(new))
        self._claims = new.rename(root / "claims" / self.owner)

    def lock_client_id(self, client_id: str) -> bool:
        place = self._root / "clients" / to_file_name(client_id)
        place.mkdir(exist_ok=True)
        return self._locks.enter_context(locked(place))

    def close(self) -> None:
        with suppress(OSError):  # what stays behind is given back by the next connection
            self._give_back_all(self._claims)
        self._locks.close()

    def _give_back_all(self, claims: Path) -> None:
        for place in list(claims.iterdir()):
            if place.is_file():
                place.unlink()  # a `send` that never returned
                continue
            for claim in place.iterdir():
                self.give_back(claim)
            place.rmdir()  # fails when one more was claimed meanwhile
        claims.rmdir()

    def give_back(self, claim: Path) -> None:
        with suppress(FileNotFoundError):
            claim.rename(self._root / "queues" / claim.parent.name / claim.name)

    def queue(self, address: Address) -> Path:
        """Return the folder of a queue, which is made when it is first named."""
        if address.kind is not AddressKind.QUEUE or address.temporary:
            raise errors.DestinationError(f"{address} cannot be in a folder, which has plain queues only")
        queue = self._root / "queues" / to_file_name(address.name)
        with suppress(FileExistsError):
            queue.mkdir()
            sync(queue.parent)
        return queue

    def _next_number(self) -> int:
        """Return a number that grows with time and, in this process, also when the clock stands still."""
        with _Folder._sequence_lock:
            _Folder._sequence = max(_Folder._sequence + 1, self._clock.time_ms() * 1000)
            return _Folder._sequence

    def write(self, envelope: Envelope) -> None:
        queue, data = self.queue(envelope.destination), encode(envelope)
        if len(data) > FILE_BYTES_MAX:
            raise errors.ResourceError(f"the message takes {len(data)} bytes as a file; the limit is {FILE_BYTES_MAX}")
        name = f"{9 - envelope.priority}-{self._next_number():020d}-{self.owner}.0.json"
        with (self._claims / name).open("xb") as file:
            file.write(data)
            if is_persistent(envelope):
                file.flush()
                os.fsync(file.fileno())
        (self._claims / name).rename(queue / name)
        if is_persistent(envelope):
            sync(queue)

    def messages(self, queue: Path, selector: Selector | None) -> Iterator[tuple[Path, Envelope]]:
        """Yield what waits in a queue, has not expired and is selected, in the order of delivery."""
        for name in sorted(filter(_MESSAGE.fullmatch, os.listdir(queue))):  # noqa: PTH208  names are sorted, not paths
            envelope = self._read(queue / name)
            if envelope is None:
                continue
            if 0 < envelope.expiration_ms <= self._clock.time_ms():
                (queue / name).unlink(missing_ok=True)
            elif selector is None or selector.matches(envelope):
                yield queue / name, envelope

    def _read(self, path: Path) -> Envelope | None:
        try:
            with path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
            if len(data) > FILE_BYTES_MAX:
                raise ValueError(f"it has more than {FILE_BYTES_MAX} bytes")
            return decode(data, Address(AddressKind.QUEUE, unquote(path.parent.name, errors="surrogatepass")))
        except FileNotFoundError:
            return None
        except _UNREADABLE as error:
            reason = f"it is no message: {type(error).__name__}: {error}"
            if aside := self.set_aside(path, reason):
                self._report(errors.ProviderError(f"a file was set aside as {aside}, as {reason}"))
            return None

    def claim(self, path: Path) -> Path | None:
        """Take a message out of its queue; None if another consumer was faster."""
        claim = self._claims / path.parent.name / f"{path.name.split('.')[0]}.{count_of(path) + 1}.json"
        with suppress(FileNotFoundError):
            claim.parent.mkdir(exist_ok=True)
            return path.rename(claim)
        return None

    def delete(self, claims: Sequence[Path], *, durably: bool) -> None:
        for claim in claims:
            claim.unlink()
        for name in {claim.parent.name for claim in claims if durably}:
            sync(self._root / "queues" / name)  # from where it went when it was claimed
            sync(self._claims / name)

    def set_aside(self, path: Path, reason: str) -> Path | None:
        aside = self._root / "aside" / f"{path.parent.name}.{path.name}"
        with suppress(FileNotFoundError):
            path.rename(aside)
            aside.with_suffix(".reason").write_text(reason, "utf-8", "backslashreplace")
            return aside
        return None


def is_persistent(envelope: Envelope) -> bool:
    return envelope.delivery_mode == 2


# [the contract]


@contextmanager
def file_errors() -> Iterator[None]:
    """Make what the file system says an error of the contract."""
    try:
        yield
    except PermissionError as error:
        raise errors.AccessDeniedError(f"this process may not do that with the folder: {error}") from error
    except OSError as error:
        raise errors.ResourceError(f"the folder cannot be used: {error}") from error


class FolderProvider(spi.Provider):
    """The entry point."""

    def connect(self, request: spi.ConnectRequest, events: spi.ConnectionEvents) -> spi.ProviderConnection:
        url, poll_ms = request.url, request.url.options.get("poll_ms", "50")
        if url.options.keys() - {"poll_ms"} or not re.fullmatch("[1-9][0-9]{0,4}", poll_ms):
            raise errors.UrlError("a folder URL has one option, poll_ms: look for news every 1 to 99999 milliseconds")
        if url.host or not url.path.strip("/"):
            raise errors.UrlError("a folder URL names a folder of this machine: folder:///path/to/dir")
        with file_errors():
            connection = _Connection(_Folder(Path(url.path), request.clock, events.on_exception), events, int(poll_ms))
        try:
            if request.client_id is not None:
                connection.set_client_id(request.client_id)
        except errors.ProviderError:
            connection.close()
            raise
        return connection


class _Connection(spi.ProviderConnection):
    """A folder, and the thread that looks for news in it and calls `on_ready`, which nobody else does."""

    info = spi.ProviderInfo(
        name="folder", version="1.0", jmsx_property_names=("JMSXDeliveryCount", "JMSXGroupID", "JMSXGroupSeq")
    )
    capabilities = (
        Capability.SELECTORS | Capability.BROWSING | Capability.PRIORITIES | Capability.EXPIRATION
        | Capability.REDELIVERY_COUNT | Capability.DEAD_LETTERS
    )  # fmt: skip

    def __init__(self, folder: _Folder, events: spi.ConnectionEvents, poll_ms: int) -> None:
        self.folder = folder
        self.delivers = False
        self.interested: set[_Consumer] = set()
        self.news = spi.Signal()
        self._events, self._poll_ms = events, poll_ms
        self._end: errors.ProviderError | None = None
        self._watcher = Thread(target=self._watch, name=f"folder-{folder.owner}", daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        while self.is_open:
            self.news.wait(self._poll_ms / 1000)  # real time: other processes do not know our clock
            try:
                ready = [consumer for consumer in tuple(self.interested) if consumer.has_news()]
            except OSError as error:
                self._end = errors.ConnectionLostError(f"the folder is gone: {error}")
                self._events.on_exception(self._end)
                return
            for consumer in ready:
                consumer.on_ready()

    @property
    def connection_id(self) -> spi.ConnectionId:
        return spi.ConnectionId(self.folder.owner)

    @property
    def is_open(self) -> bool:
        return self._end is None

    def check(self) -> None:
        if self._end is not None:
            raise type(self._end)(self._end.reason)

    def set_client_id(self, client_id: str) -> None:
        self.check()
        with file_errors():
            if not self.folder.lock_client_id(client_id):
                raise errors.DuplicateClientIdError(f"another connection to this folder is {client_id!r}")

    def open_session(self, *, transacted: bool) -> spi.ProviderSession:
        self.check()
        if transacted:
            raise errors.CapabilityError("a folder has no transactions (Capability.TRANSACTIONS)")
        return _Session(self)

    def start(self) -> None:
        self.check()
        self.delivers = True
        for consumer in tuple(self.interested):
            consumer.look_again()

    def stop(self) -> None:
        self.check()
        self.delivers = False

    def close(self) -> None:
        if not isinstance(self._end, errors.ClosedError):
            self._end = errors.ClosedError("the connection is closed")
            self.news.set()
            if current_thread() is not self._watcher:
                self._watcher.join()
            self.folder.close()


class _Session(spi.ProviderSession):
    """Knows which files it has claimed. To close, it takes them under its lock and gives them back outside it."""

    def __init__(self, connection: _Connection) -> None:
        self.connection = connection
        self.folder = connection.folder
        self._lock = Lock()
        self._closed = False
        self._claims: set[Path] = set()

    def check(self) -> None:
        self.connection.check()
        if self._closed:
            raise errors.ClosedError("the session is closed")

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around each step: when it fails because of a close from another thread, the error says so."""
        self.check()
        try:
            with file_errors():
                yield
        except errors.ProviderError:
            self.check()
            raise

    def keep(self, claim: Path) -> bool:
        """Enter what was claimed just now; False if the session was closed meanwhile."""
        with self._lock:
            self._claims.add(claim)
            return not self._closed and self.connection.is_open

    def _take(self, deliveries: Sequence[Delivery]) -> list[Path]:
        """Take out what the caller is to settle or to give back."""
        claims = [delivery.tag for delivery in deliveries if isinstance(delivery.tag, Path)]
        with self._lock:
            self.check()
            self._claims.difference_update(claims)
        return claims

    def send(self, envelope: Envelope) -> None:
        with self.step():
            self.folder.write(envelope)
        self.connection.news.set()

    def subscribe(self, request: spi.SubscribeRequest, on_ready: Callable[[], None]) -> spi.ProviderConsumer:
        with self.step():
            return _Consumer(self, self.folder.queue(request.address), request.selector, on_ready)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        with self.step():
            durably = any(is_persistent(delivery.envelope) for delivery in deliveries)
            self.folder.delete(self._take(deliveries), durably=durably)

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        with self.step():
            for claim in self._take(deliveries):
                self.folder.give_back(claim)
        self.connection.news.set()

    def reject(self, delivery: Delivery, reason: str) -> None:
        with self.step():
            for claim in self._take((delivery,)):
                self.folder.set_aside(claim, reason)

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        with self.step():
            queue = self.folder.queue(address)
        return self._browse(queue, selector)

    def _browse(self, queue: Path, selector: Selector | None) -> Iterator[Delivery]:
        with self.step():
            for path, envelope in self.folder.messages(queue, selector):
                yield Delivery(envelope, count_of(path) + 1, count_of(path) > 0, None)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            claims, self._claims = self._claims, set()
        for consumer in tuple(self.connection.interested):
            if consumer.session is self:
                consumer.close()
        for claim in claims:
            with suppress(OSError):  # what cannot go back now does when the connection is gone
                self.folder.give_back(claim)
        self.connection.news.set()


class _Consumer(spi.ProviderConsumer):
    """One receiver of one queue."""

    def __init__(self, session: _Session, queue: Path, selector: Selector | None, on_ready: Callable[[], None]) -> None:
        self.session = session
        self.on_ready = on_ready
        self._queue, self._selector = queue, selector
        self._closed = False
        self._again = False
        self._seen: set[str] = set()
        self._passed_over: set[str] = set()

    def poll(self) -> Delivery | None:
        session = self.session
        if self._closed or not session.connection.delivers:
            return None
        with session.step():
            there = set(os.listdir(self._queue))  # noqa: PTH208  names will do; before looking: what comes meanwhile is news
            self._passed_over = set()
            for path, envelope in session.folder.messages(self._queue, self._selector):
                if claim := session.folder.claim(path):
                    if session.keep(claim):
                        return Delivery(envelope, count_of(claim), count_of(claim) > 1, claim)
                    session.folder.give_back(claim)
            self._passed_over = there
        return None

    def set_interested(self, interested: bool) -> None:
        if interested and not self._closed:
            self.session.connection.interested.add(self)
            self.look_again()
        else:
            self.session.connection.interested.discard(self)

    def look_again(self) -> None:
        """Let the watcher call `on_ready` also for what it has seen before, unless `poll` has passed it over since."""
        self._again = True
        self.session.connection.news.set()

    def has_news(self) -> bool:
        """Say whether there is what the last call did not see. On the watcher's thread only."""
        again = self._again
        if again:
            self._again = False  # before looking: what is asked for from now on is for the next look
        before = self._passed_over if again else self._seen
        self._seen = set(os.listdir(self._queue))  # noqa: PTH208
        return not self._seen <= before

    def close(self) -> None:
        self._closed = True
        self.session.connection.interested.discard(self)
