"""The sites of a route: a connection with its session, the source of the messages, and the sinks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from uuid import uuid4

from pyjms.forwarding.settings import AdaptiveBatchSize, RouteSettings, Site
from pyjms.forwarding.unit import Copy, UndeliverableError, has_lasting_id, readdressed
from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock, Signal
from pyjms.spi.credentials import login_of_account
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, Envelope, MessageId
from pyjms.spi.errors import (
    AccessDeniedError,
    ClosedError,
    ConnectionLostError,
    DestinationError,
    InDoubtError,
    MissingProviderError,
    ProviderError,
    ResourceError,
    RolledBackError,
    UrlError,
)
from pyjms.spi.provider import ConnectRequest, ProviderConnection, ProviderConsumer, ProviderSession, SubscribeRequest
from pyjms.spi.registry import find_provider
from pyjms.spi.routes import RouteError
from pyjms.spi.selector import selector_or_none
from pyjms.spi.url import ProviderUrl

_DETECTORS = {"pyjms": "JMS_pyjms_duplicateId", "ActiveMQ Artemis": "_AMQ_DUPL_ID"}
"""The property by which a provider detects duplicates, by the beginning of the provider's name."""
DUPLICATE_PROPERTIES = frozenset(_DETECTORS.values())
"""All of these properties: they make a message a duplicate where it has been before."""


def duplicate_property_of(provider_name: str) -> str | None:
    """Return the property by which a provider is known to detect duplicates; None if it does not."""
    return next((name for title, name in _DETECTORS.items() if provider_name.startswith(title)), None)


def connect(site: Site, clock: Clock, on_exception: Callable[[ProviderError], None]) -> ProviderConnection:
    """Open a connection, stopped. Raises what `pyjms.spi.Provider.connect` does."""
    events = _Events(on_exception)
    if site.opens is not None:
        return site.opens(events)
    url = ProviderUrl.parse(site.url)
    provider = find_provider(url.scheme)
    login = (url.user_name, url.password) if site.user_name is None else (site.user_name, site.password)
    if site.uses_account and login == (None, None):
        login = login_of_account(provider, url)
    request = ConnectRequest(url=url, user_name=login[0], password=login[1], client_id=None, clock=clock)
    return provider.connect(request, events)


class _Events:
    """Receives the connection problems that a provider reports by itself."""

    def __init__(self, tell: Callable[[ProviderError], None]) -> None:
        self.on_exception = tell


class RouteConnection:
    """A connection owned by the route's thread; only `end` may be called from another one."""

    def __init__(self, site: Site, clock: Clock, wake: Callable[[], None]) -> None:
        """`wake` is called when the provider reports a problem of the connection."""
        self.site = site
        self._clock = clock
        self._wake = wake
        self._lock = Lock()
        self._connection: ProviderConnection | None = None
        self._session: ProviderSession | None = None
        self._is_over = False
        self.problem: ProviderError | None = None
        """The problem that the provider has reported of the present connection."""
        self.is_known = False
        """Whether it was ever connected."""
        self.provider_name = ""

    @property
    def is_open(self) -> bool:
        """Whether there is a connection without known problems."""
        return self._session is not None

    @property
    def connection(self) -> ProviderConnection:
        """The present connection. Raises `ClosedError`."""
        if self._connection is None:
            raise ClosedError(f"there is no connection to {self.site.url}")
        return self._connection

    def session(self) -> ProviderSession:
        """Return the session; connect first if there is none. Raises `RouteError` when a retry cannot help, otherwise
        `ProviderError`.
        """
        session = self._session
        if session is None:
            # Cleared before the connect: the provider may report a problem of the new connection before this call
            # returns.
            self.problem = None
            try:
                connection = connect(self.site, self._clock, self._tell)
            except (UrlError, MissingProviderError) as error:
                # A wrong URL or a missing provider is permanent: the route ends instead of retrying.
                raise RouteError(f"{self.site.url} cannot be used: {error.reason}") from error
            with self._lock:
                # The lock orders this against end(): either end() finds the connection and closes it, or this thread
                # sees that the route is over. Connecting and closing may wait for the network, and happen outside of
                # it.
                is_wanted = not self._is_over
                if is_wanted:
                    self._connection = connection
            if not is_wanted:
                connection.close()
                raise ClosedError("the route was stopped")
            try:
                session = self._session = self._open_session(connection)
            except Exception:
                self.drop()  # otherwise each attempt would leave one more connection open
                raise
        return session

    def _open_session(self, connection: ProviderConnection) -> ProviderSession:
        if Capability.TRANSACTIONS not in connection.capabilities:
            raise RouteError(
                f"{self.site.url} ({connection.info.name}) has no transactions, and a route needs them at both ends; "
                f"{connection.advice(Capability.TRANSACTIONS) or 'choose another provider or URL'}"
            )
        session = connection.open_session(transacted=True)
        self.provider_name = connection.info.name
        self.is_known = True
        return session

    def _tell(self, problem: ProviderError) -> None:
        # This runs on a thread of the provider. The problem is stored before the route's thread is woken to check for
        # it.
        self.problem = problem
        self._wake()

    def drop(self) -> None:
        """Close the connection: received messages are redelivered, uncommitted work is rolled back."""
        with self._lock:
            connection, self._connection = self._connection, None
        self._session = None
        if connection is not None:
            # A failed close does no harm: the site takes back unsettled messages of a lost connection, too.
            with suppress(ProviderError):
                connection.close()

    def end(self) -> None:
        """Make a waiting call return, and prevent new connections. Any thread."""
        with self._lock:
            self._is_over = True
            # The route's thread drops the connection later: this thread only makes its waiting call return.
            connection = self._connection
        if connection is not None:
            with suppress(ProviderError):
                connection.close()


_OF_THE_SITE = (
    AccessDeniedError,
    ClosedError,
    ConnectionLostError,
    DestinationError,
    InDoubtError,
    ResourceError,
    RolledBackError,
)
"""Errors that say nothing about the message: the site is unreachable, full, or not set up; all other messages would
fail, too.
"""
_LOST = (ClosedError, ConnectionLostError, InDoubtError)
# A bound for memory: ten times the largest batch that the settings allow.
_REMEMBERED_MAX = 100_000


def is_refusal(error: ProviderError) -> bool:
    """Say whether an error of a send concerns that message, so that a retry is useless."""
    return not isinstance(error, _OF_THE_SITE)


class Sink:
    """The end of a route at one site. For one thread."""

    def __init__(self, link: RouteConnection, attempts: int) -> None:
        self.link = link
        self._attempts = attempts
        self._batch_size = AdaptiveBatchSize()
        self._failures = 0
        # A counter and not a set: a producer may have sent two messages with one id, and each is one delivery to be
        # skipped.
        self._arrived: Counter[str] = Counter()
        self.sent = 0

    @property
    def duplicate_property(self) -> str | None:
        """The site's property for duplicate detection; None if it has none, or was never connected."""
        return duplicate_property_of(self.link.provider_name)

    def deliver(self, copies: Sequence[Copy]) -> None:
        """Deliver all copies to the site, or mark them as refused, before returning; may be repeated after an error.

        Raises `ProviderError` when the site is unreachable or has no room.
        """
        waiting = [copy for copy in copies if not (copy.is_done or self._has_arrived(copy))]
        if not waiting:
            return
        session = self._session()
        while waiting:
            # The size is halved while transactions fail, so that a site with little room accepts a part of the batch,
            # and a message that the site refuses is isolated.
            some = _with_different_identities(waiting[: self._batch_size.most])
            try:
                self._commit(session, some)
            except ProviderError as error:
                self._undo(session, error)
                self._handle_failure(some, error)
            else:
                self._batch_size.succeeded()
                self._failures = 0
            # The copies of one transaction are delivered together, so the first one represents all.
            waiting = waiting if not some[0].is_done else waiting[len(some) :]

    def _session(self) -> ProviderSession:
        # The provider may have reported the loss while the sink was idle; a send on that connection would fail.
        if self.link.problem is not None:
            self.link.drop()
        return self.link.session()

    def _handle_failure(self, tried: Sequence[Copy], error: ProviderError) -> None:
        """Try fewer copies next, or mark the single copy that the site refuses. Raises `error` when a later attempt is
        needed.
        """
        # A rollback at the commit does not say which message caused it, or whether there was no room.
        may_fit = is_refusal(error) or isinstance(error, (ResourceError, RolledBackError))
        if may_fit and self._batch_size.failed(len(tried)) and self._is_well:
            return
        # A lost connection never counts against a message: only an error of a message that was sent alone does
        # (decision 0900).
        if len(tried) > 1 or not self._is_well:
            raise error
        (copy,) = tried
        # A remote site reports at the commit that it is full; that is no more the message's fault than at the send.
        self._failures += isinstance(error, RolledBackError) and not isinstance(error.__cause__, ResourceError)
        if not (is_refusal(error) or self._failures >= self._attempts):
            raise error
        self._failures = 0
        copy.is_done = True
        copy.item.refused = UndeliverableError(error.reason, str(copy.outgoing.target))

    def _commit(self, session: ProviderSession, copies: Sequence[Copy]) -> None:
        # Known only after connecting, so the envelopes are built for each attempt.
        found_by = self.duplicate_property
        for copy in copies:
            session.send(copy.envelope(found_by))
        session.commit()
        # Only after the commit: if its outcome is unknown, the copies are sent again, and the site drops duplicates.
        self.sent += len(copies)
        for copy in copies:
            copy.is_done = copy.is_there = True

    def _has_arrived(self, copy: Copy) -> bool:
        """Whether the site received it in a unit that the source did not settle; then it counts as delivered."""
        if copy.identity is None or copy.identity not in self._arrived:
            return False
        self._arrived[copy.identity] -= 1
        if not self._arrived[copy.identity]:
            del self._arrived[copy.identity]
        copy.is_done = copy.is_there = True
        return True

    @property
    def _is_well(self) -> bool:
        """Whether the connection has no known problems."""
        return self.link.is_open and self.link.problem is None

    def _undo(self, session: ProviderSession, error: ProviderError) -> None:
        # A lost connection has rolled its transaction back; another attempt needs a new connection.
        if isinstance(error, _LOST):
            self.link.drop()
            return
        try:
            session.rollback()
        except ProviderError:
            self.link.drop()

    def expect_redelivery(self, copies: Sequence[Copy]) -> None:
        """Remember the delivered copies, as the source will redeliver their messages."""
        for copy in copies:
            # A refused copy is not remembered: when its message is redelivered, it is tried again.
            if copy.is_there and copy.identity is not None:
                self._arrived[copy.identity] += 1
        # entries whose message was never redelivered: it expired, or another consumer took it
        while len(self._arrived) > _REMEMBERED_MAX:
            self._arrived.pop(next(iter(self._arrived)))


def _with_different_identities(copies: Sequence[Copy]) -> Sequence[Copy]:
    """Return the first copies, up to one with the identity of an earlier one.

    A site can detect a duplicate only after the commit of the first message, so not within one transaction.
    """
    seen: set[str] = set()
    for number, copy in enumerate(copies):
        if copy.identity is None:
            continue
        if copy.identity in seen:
            return copies[:number]
        seen.add(copy.identity)
    return copies


class Source:
    """The source's end of a route. For one thread."""

    def __init__(
        self,
        settings: RouteSettings,
        link: RouteConnection,
        clock: Clock,
        signal: Signal,
        is_over: Callable[[], bool],
        on_open: Callable[[], None],
    ) -> None:
        """`is_over` says when to stop waiting; the thread that makes it true sets `signal`. `on_open` is called when
        receiving starts.
        """
        self._on_open = on_open
        self._settings = settings
        self.link = link
        self._clock = clock
        self._signal = signal
        self._is_over = is_over
        self._selector = selector_or_none(settings.selector)
        # The route's name is part of it: two routes that read one queue must not take each other's messages.
        self._named = Address(AddressKind.QUEUE, f"{settings.source.address.name}.{settings.name}.named")
        self._consumer: ProviderConsumer | None = None
        self._naming: ProviderConsumer | None = None
        self._held: deque[Delivery] = deque()
        self._may_have_named = True
        self._batch_size = AdaptiveBatchSize()
        self.gives_ids = True
        """Whether messages without an id get one: useful only where it serves duplicate detection."""

    def open(self) -> None:
        """Start to receive, unless it has started. Raises `ProviderError`."""
        # New rules of a router may be the first to need ids; then this end is opened again with the second consumer.
        lacks_naming = self.gives_ids and self._naming is None
        if self._consumer is not None and self.link.problem is None and not lacks_naming:
            return
        self.close()
        self.link.session()
        wake = self._signal.set
        # An earlier run that died may have left messages in the route's own queue.
        self._may_have_named = self.gives_ids
        if self.gives_ids:
            self._naming = self._subscribe(self._named, wake)
        self._consumer = self._subscribe(self._settings.source.address, wake)
        self.link.connection.start()
        self._on_open()

    def _subscribe(self, address: Address, wake: Callable[[], None]) -> ProviderConsumer:
        selector = None if address == self._named else self._selector
        request = SubscribeRequest(address=address, selector=selector, no_local=False, durable_name=None)
        return self.link.session().subscribe(request, wake)

    def close(self) -> None:
        """Release unsettled messages to their places in the queue."""
        # Held messages are released as unseen before the connection closes, which would count a delivery for each and
        # mark it redelivered.
        held, self._held = list(self._held), deque()
        self._consumer = self._naming = None
        if held and self.link.is_open:
            self._give_back(held)
        self.link.drop()

    def release(self, batch: list[Delivery]) -> None:
        """Release a batch that was handed out, and all other received messages."""
        # In front and in their order: they are older than the held ones.
        self._held.extendleft(reversed(batch))
        self.close()

    def _give_back(self, deliveries: list[Delivery]) -> None:
        session = self.link.session()
        try:
            # In a transacted session, deliveries can be released only after a rollback.
            session.rollback()
            session.give_back_unseen(deliveries)
        except ProviderError:
            return  # the connection is lost: the site requeues them by itself

    def take(self) -> list[Delivery]:
        """Return a batch, all of it with lasting ids if `gives_ids`; empty when the route is over. Raises
        `ProviderError`.
        """
        while not self._is_over():
            self.open()
            # The route's own queue is emptied first, as its messages are older than those of the source.
            if self._may_have_named and self._naming is not None:
                named = self._poll_all(self._naming, self._settings.batch)
                if named:
                    return named
                self._may_have_named = False
            self._fill()
            if not self._held:
                continue
            if not self.gives_ids:
                return self._take_held(lambda _: True)
            # A batch ends at the first message without a lasting id, so that no later message overtakes it.
            batch = self._take_held(lambda each: has_lasting_id(each.envelope))
            if batch:
                return batch
            self._give_ids(self._take_held(lambda each: not has_lasting_id(each.envelope)))
        return []

    def unsettled(self) -> Sequence[Delivery]:
        """Return the messages that were received and not handed out yet."""
        return tuple(self._held)

    def forget(self) -> None:
        """Forget the received messages: they have been requeued."""
        self._held.clear()

    def _fill(self) -> None:
        """Wait for messages, until the batch is full or has waited long enough, or the route is over."""
        assert self._consumer is not None
        settings, until_ms = self._settings, None
        while len(self._held) < settings.batch and not self._is_over() and self.link.problem is None:
            # The consumer becomes interested in the same step: otherwise a message between a poll and the wait would
            # wake no thread.
            delivery = self._consumer.poll_or_wait()
            if delivery is not None:
                self._held.append(delivery)
                continue
            if self._held and not settings.linger_ms:
                return
            if self._held and until_ms is None:
                until_ms = self._clock.monotonic_ms() + settings.linger_ms
            # The signal may also mean a pause, the end or a lost connection: the loop's condition checks all three.
            if not self._clock.wait(self._signal, until_ms):
                return

    @staticmethod
    def _poll_all(consumer: ProviderConsumer, most: int) -> list[Delivery]:
        # Messages that this route has just moved may still be on their way to the consumer; without this, later ones
        # would overtake them.
        consumer.catch_up()
        found: list[Delivery] = []
        while len(found) < most and (delivery := consumer.poll()) is not None:
            found.append(delivery)
        return found

    def _take_held(self, wanted: Callable[[Delivery], bool]) -> list[Delivery]:
        batch: list[Delivery] = []
        while self._held and wanted(self._held[0]):
            batch.append(self._held.popleft())
        return batch

    def _give_ids(self, batch: list[Delivery]) -> None:
        """Move messages into the route's own queue, with an id each: one transaction at this site alone.

        If that queue has no room for all of them, the rest is held again. Raises `ProviderError`.
        """
        session = self.link.session()
        part = batch[: self._batch_size.most]
        self._held.extendleft(reversed(batch[len(part) :]))
        try:
            for delivery in part:
                session.send(self._with_id(delivery.envelope))
        except ResourceError:
            if not self._batch_size.failed(len(part)) or self.link.problem is not None:
                raise
            session.rollback()
            self._held.extendleft(reversed(part))
            return
        # Sends and acknowledgements commit together at one site, so that a crash neither loses nor duplicates a
        # message.
        session.acknowledge(part)
        session.commit()
        self._batch_size.succeeded()
        self._may_have_named = True

    def _with_id(self, envelope: Envelope) -> Envelope:
        """Return the message for the route's own queue: without its sender's duplicate id, by which it could be dropped
        there.
        """
        properties = {name: value for name, value in envelope.properties.items() if name not in DUPLICATE_PROPERTIES}
        named = readdressed(envelope, self._named, properties, envelope.reply_to)
        named.message_id = MessageId(f"ID:pyjms-forward-{uuid4()}")  # type: ignore[misc]  # nobody else has it yet
        return named
