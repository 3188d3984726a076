"""Requests between the members of a cluster: an operation on objects as JSON, over the link to the front of the member that has them.

A request is a message to the queue `MEMBER_QUEUE` of a front, which no client can reach: clients' queues are in shards. The front has the connection of each
message, so that only links are answered, whose other end has shown the secret of the cluster. Whoever asks has checked the rights of the user.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.errors import ClosedError, ProviderError, ResourceError
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.receivers import MessageReceiver, PushedMessage
from pyjms_provider.model.errors import Problem
from pyjms_provider.model.operations import NO_PROGRESS, Progress
from pyjms_provider.receivers import Receivers

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.cluster.known import JoinedCluster
    from pyjms_provider.cluster.placement import FrontPlace

MEMBER_QUEUE: Final = "$member"
"""The queue of a front that takes requests of other members."""
LINK: Final = "link"
"""The protocol of connections between members."""
_ADDRESS: Final = Address(AddressKind.QUEUE, MEMBER_QUEUE)
_ANSWER_MS: Final = 60_000
"""How long an answer, or a report that the work goes on, is waited for."""
_LOOK_MS: Final = 250
"""How often it is seen whether the member that was asked is still the one to ask."""
_REPORT_MS: Final = 250
"""A member reports progress at most so often."""
_AT_ONCE_MAX: Final = 64
_SEEN_MAX: Final = 10_000
_IDLE_MAX: Final = 4
_log = logging.getLogger(__name__)


class UnansweredError(Exception):
    """The member has not answered."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.was_sent = was_sent
        """Whether it may have done what it was asked for."""


def error_as_data(error: ProviderError) -> dict[str, Any]:
    """Return an error as JSON."""
    facts = {name: value for name, value in vars(error).items() if isinstance(value, (str, int, float, bool))}
    problems = [{"name": each.name, "text": each.text} for each in getattr(error, "problems", ())]
    return {
        "class": type(error).__name__,
        "code": error.code,
        **({"problems": problems} if problems else {}),
        "facts": facts,
    }


def error_from_data(data: Mapping[str, Any]) -> ProviderError:
    """Return the error of another member: of the same class, if it is known here."""
    kind = _class_of(ProviderError, data["class"], data["code"]) or ProviderError
    # Not by its arguments, which differ from class to class.
    error = kind.__new__(kind, data["facts"]["reason"])
    vars(error).update(data["facts"])
    if "problems" in data:
        vars(error)["problems"] = tuple(Problem(**each) for each in data["problems"])
    return error


def _class_of(above: type[ProviderError], name: str, code: str) -> type[ProviderError] | None:
    if above.__name__ == name and above.code == code:
        return above
    found = (_class_of(each, name, code) for each in above.__subclasses__())
    return next((each for each in found if each is not None), None)


def _message(destination: Address, data: Mapping[str, Any], reply_to: Address | None, now_ms: int) -> Envelope:
    return Envelope(
        destination=destination,
        message_id=MessageId(f"ID:{uuid4()}"),
        timestamp_ms=now_ms,
        expiration_ms=0,
        delivery_mode=1,
        priority=4,
        correlation_id=None,
        reply_to=reply_to,
        jms_type=None,
        properties={},
        body_kind=BodyKind.TEXT,
        body=json.dumps(data),
    )


class _Line:
    """A connection to the front of another member, for one request at a time."""

    def __init__(self, cluster: JoinedCluster, place: FrontPlace, clock: Clock) -> None:
        """Connect. Raises `ProviderError`."""
        self._clock = clock
        self.woken = Signal()
        self.is_lost = False
        self._connection = cluster.connect(place, self)
        try:
            self._session = self._connection.open_session(transacted=False)
            self._own = self._connection.create_temporary(AddressKind.QUEUE)
            request = SubscribeRequest(address=self._own, selector=None, no_local=False, durable_name=None)
            self._consumer = self._session.subscribe(request, self.woken.set)
            self._connection.start()
            self.wait = self._session.waiter(clock)
        except Exception:
            self._connection.close()
            raise

    def on_exception(self, error: ProviderError) -> None:
        """Note that the link was interrupted: what was sent to the temporary queue meanwhile is lost."""
        self.is_lost = True
        self.woken.set()

    def send(self, data: Mapping[str, Any]) -> None:
        """Send a request, or a word about one. Raises `ProviderError`."""
        self._session.send(_message(_ADDRESS, data, self._own, self._clock.time_ms()))

    def take(self) -> dict[str, Any] | None:
        """Return what the member has said; None: nothing new. Raises `ProviderError`."""
        delivery = self._consumer.poll_or_wait()
        if delivery is None:
            return None
        self._session.acknowledge([delivery])
        found: dict[str, Any] = json.loads(str(delivery.envelope.body))
        return found

    def close(self) -> None:
        """End the connection."""
        with suppress(ProviderError):
            self._connection.close()


class MemberRequests:
    """Asks other members. Any thread."""

    def __init__(self, cluster: JoinedCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = Lock()
        self._idle: dict[FrontPlace, list[_Line]] = {}
        self._is_closed = False

    def ask(
        self,
        place: FrontPlace,
        request: Mapping[str, Any],
        *,
        is_current: Callable[[], bool],
        progress: Progress = NO_PROGRESS,
    ) -> Any:
        """Return the result of a request to the member with that front.

        Args:
            place: its front.
            request: the request, as JSON.
            is_current: whether it is still the member to ask.
            progress: is told of its progress, and can stop it half way.

        Raises:
            UnansweredError: it cannot be reached, or did not answer.
            ProviderError: what it answers.
        """
        try:
            line = self._line(place)
        except ProviderError as error:
            raise UnansweredError(error.reason, was_sent=False) from error
        is_done = False
        try:
            told = self._answer(line, str(uuid4()), request, is_current, progress)
            is_done = True
        except ProviderError as error:
            raise UnansweredError(error.reason, was_sent=True) from error
        finally:
            self._put_back(place, line, is_usable=is_done)
        if "error" in told:
            raise error_from_data(told["error"])
        return told["result"]

    def _answer(
        self, line: _Line, number: str, request: Mapping[str, Any], is_current: Callable[[], bool], progress: Progress
    ) -> dict[str, Any]:
        clock = self._clock
        line.send({**request, "id": number})
        until_ms = clock.monotonic_ms() + _ANSWER_MS
        while True:
            while (told := line.take()) is not None:
                if told["id"] != number:
                    continue  # the late answer to an earlier request
                if "done" not in told:
                    return told
                until_ms = clock.monotonic_ms() + _ANSWER_MS
                if not progress(told["done"], told["total"]):
                    line.send({"stop": number, "id": number})
            if self._is_closed:
                raise ClosedError("this member is stopping")
            if line.is_lost or not is_current() or clock.monotonic_ms() >= until_ms:
                raise UnansweredError("the member that was asked has not answered", was_sent=True)
            line.wait(line.woken, clock.monotonic_ms() + _LOOK_MS)

    def _line(self, place: FrontPlace) -> _Line:
        while True:
            with self._lock:
                idle = self._idle.get(place)
                line = idle.pop() if idle else None
            if line is None:
                return _Line(self._cluster, place, self._clock)
            if not line.is_lost:
                return line
            line.close()

    def _put_back(self, place: FrontPlace, line: _Line, *, is_usable: bool) -> None:
        with self._lock:
            idle = self._idle.setdefault(place, [])
            is_kept = is_usable and not line.is_lost and not self._is_closed and len(idle) < _IDLE_MAX
            if is_kept:
                idle.append(line)
        if not is_kept:
            line.close()

    def keep_only(self, places: frozenset[FrontPlace]) -> None:
        """Close the connections to members that have gone."""
        with self._lock:
            gone = [place for place in self._idle if place not in places]
            lines = [line for place in gone for line in self._idle.pop(place)]
        for line in lines:
            line.close()

    def close(self) -> None:
        """Close all connections; requests under way fail. May be repeated."""
        with self._lock:
            self._is_closed = True
        self.keep_only(frozenset())


class MemberRequestServer(MessageReceiver):
    """Answers the requests of other members, each on a thread of its own."""

    def __init__(self, cluster: JoinedCluster, answer: Callable[[Mapping[str, Any], Progress], Any]) -> None:
        """`answer`: does a request, and returns its result as JSON; raises `ProviderError`."""
        self._front = cluster.front
        self._answer = answer
        self._lock = Lock()
        self._active: dict[str, bool] = {}
        """The requests under way by id, and whether each goes on."""
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._receivers = Receivers(self._front, protocol=LINK)
        self._receivers.attach(f"queue://{MEMBER_QUEUE}", self, name="member")

    def close(self) -> None:
        """Take no more requests, and stop those under way that can be stopped half way. May be repeated."""
        self._receivers.close()
        with self._lock:
            self._active = dict.fromkeys(self._active, False)

    def handle(self, message: PushedMessage) -> bool:
        """Begin a request of another member."""
        # First: after a failure, who asked finds that there is no answer, and a request is never done twice.
        message.acknowledge()
        client = None if message.origin is None else self._front.clients().get(message.origin)
        if client is None or client.protocol != LINK:
            return False
        request = json.loads(str(message.envelope.body))
        number = request["id"]
        with self._lock:
            if "stop" in request:
                if number in self._active:
                    self._active[number] = False
                return False
            if number in self._seen:
                return False  # a link that was interrupted has sent it again
            self._seen[number] = None
            if len(self._seen) > _SEEN_MAX:
                self._seen.popitem(last=False)
            is_busy = len(self._active) >= _AT_ONCE_MAX
            if not is_busy:
                self._active[number] = True
        if is_busy:
            error = ResourceError(f"the member does {_AT_ONCE_MAX} requests of others already; ask again in a moment")
            self._tell(message.envelope, {"id": number, "error": error_as_data(error)})
            return False
        serve = Thread(
            target=self._serve, args=(message.envelope, number, request), name="pyjms member request", daemon=True
        )
        try:
            serve.start()
        except RuntimeError as error:
            with self._lock:
                self._active.pop(number, None)
            refusal = ResourceError(f"the member cannot begin the request: {error}")
            self._tell(message.envelope, {"id": number, "error": error_as_data(refusal)})
        return False

    def _serve(self, envelope: Envelope, number: str, request: Mapping[str, Any]) -> None:
        clock, told_ms = self._front.clock, self._front.clock.monotonic_ms()

        def progress(done: int, total: int | None) -> bool:
            nonlocal told_ms
            if clock.monotonic_ms() >= told_ms + _REPORT_MS:
                told_ms = clock.monotonic_ms()
                self._tell(envelope, {"id": number, "done": done, "total": total})
            return self._active.get(number, False)

        answer: dict[str, Any]
        try:
            answer = {"result": self._answer(request, progress)}
        except ProviderError as error:
            answer = {"error": error_as_data(error)}
        except Exception:
            _log.exception("PYJMS-CLUSTER-10 a request of another member failed")
            failure = ProviderError("the member failed to do this; its log says why (PYJMS-CLUSTER-10)")
            answer = {"error": error_as_data(failure)}
        with self._lock:
            self._active.pop(number, None)
        self._tell(envelope, {"id": number, **answer})

    def _tell(self, envelope: Envelope, data: Mapping[str, Any]) -> None:
        assert envelope.reply_to is not None, "members ask with one"
        answer = _message(envelope.reply_to, data, None, self._front.clock.time_ms())
        # Who asked may have gone, or this member stops: then nobody waits for the answer.
        with suppress(ProviderError):
            self._front.virtual_host.route(answer, self._receivers.connection_id, None)
