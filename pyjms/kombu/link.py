"""A connection to a message system: one session sends, and one receives for all channels of kombu's connection.

After an interruption the connection is not used again, even if the provider restores it: received messages are
redelivered, and kombu, and Celery above it, must be told to forget theirs.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from threading import RLock
from types import MappingProxyType
from typing import Final

from pyjms.kombu.envelopes import Outgoing
from pyjms.spi.capability import Capability
from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.credentials import login_of_account
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, MessageId
from pyjms.spi.errors import CapabilityError, ClosedError, ConnectionLostError, ProviderError, UrlError
from pyjms.spi.interrupts import REASON, close_later, deferred, defers_signals
from pyjms.spi.provider import (
    ConnectRequest,
    ProviderConnection,
    ProviderConsumer,
    ProviderSession,
    SubscribeRequest,
)
from pyjms.spi.registry import find_provider
from pyjms.spi.selector import Selector
from pyjms.spi.url import ProviderUrl

_log = logging.getLogger("pyjms.kombu")
_homes: Final[dict[tuple[str, str], int]] = {}
"""The process that has the broker of a URL, for brokers that live in their clients' process."""
_BATCH: Final = 100


class Link:
    """Safe for any thread: Celery acknowledges on other threads than the one that receives.

    A session is for one thread at a time. A caller of the session holds its lock (`docs/design/threads.md`), but never
    while waiting for messages.
    """

    def __init__(
        self, url: ProviderUrl, user_name: str | None, password: str | None, defaults: Mapping[str, str]
    ) -> None:
        """Connect. `defaults`: options for providers that know them, unless the URL has them.

        Raises what `pyjms.spi.Provider.connect` does.
        """
        self.clock = SystemClock()
        self._signal = Signal()
        self.wake: Callable[[], None] = self._signal.set
        """Wakes the thread that waits for messages."""
        self.problem: ProviderError | None = None
        """Why the connection can no longer be used."""
        self.is_told = False
        """Whether a call has raised it."""
        self.process = os.getpid()
        self._place = f"{url.scheme}://{url.host}"
        self._numbers = count(1)
        # Two sessions with a lock each: a send that waits for room must not delay an acknowledgement, which may make
        # the room (decision 0213).
        self._sending = RLock()
        self._receiving = RLock()
        self._sender: ProviderSession | None = None
        self._receiver: ProviderSession | None = None
        self._waiter: Callable[[Signal, float | None], bool] = self.clock.wait
        self._interested: dict[ProviderConsumer, None] = {}
        # Set before the connect: the provider may call on_exception from another thread before the call below returns.
        self._connection: ProviderConnection | None = None
        self._connection = self._connect(url, user_name, password, defaults)
        self._id = self._connection.connection_id
        self.capabilities = self._connection.capabilities
        if Capability.EMBEDDED_BROKER in self.capabilities:
            # A forked child inherits this table, which tells it that the broker stayed in its parent.
            _homes[url.scheme, url.host] = self.process

    def _connect(
        self, url: ProviderUrl, user_name: str | None, password: str | None, defaults: Mapping[str, str]
    ) -> ProviderConnection:
        if _homes.get((url.scheme, url.host), self.process) != self.process:
            raise self._elsewhere()
        provider = find_provider(url.scheme)
        if user_name is None and password is None:
            user_name, password = login_of_account(provider, url)
        request = ConnectRequest(
            url=replace(url, options=MappingProxyType({**defaults, **url.options})),
            user_name=user_name,
            password=password,
            client_id=None,
            clock=self.clock,
        )
        try:
            connection = provider.connect(request, self)
        except UrlError:  # it does not know the options, or others are wrong
            connection = provider.connect(replace(request, url=url), self)
        try:
            if Capability.EMBEDDED_BROKER in connection.capabilities:
                # The table of homes is empty in a pool that was forked before any connection, so that case is checked
                # separately.
                self._check_is_no_pool()
            connection.start()
        except Exception:
            connection.close()
            raise
        return connection

    def _check_is_no_pool(self) -> None:
        """Raise `UrlError` in a process of a Celery worker's pool, which is forked before any connection."""
        billiard = sys.modules.get("billiard")
        if billiard is not None and billiard.current_process().name != "MainProcess":
            raise self._elsewhere()

    def _elsewhere(self) -> UrlError:
        return UrlError(
            f"{self._place} lives in the process that this one was forked from, and nobody else reaches it: "
            "have the worker use --pool=threads or --pool=solo, or a broker that is served, as stomp://127.0.0.1:61613"
        )

    @property
    def connection(self) -> ProviderConnection:
        """The connection. Raises `ConnectionLostError`, `ClosedError`."""
        self.check()
        if self._connection is None:
            raise ClosedError(f"the connection to {self._place} is closed")
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether it may be used, as far as its user has been told."""
        return self._connection is not None and not self.is_told

    @property
    def is_usable(self) -> bool:
        """Whether calls can still use it."""
        return self._connection is not None and self.problem is None and self.process == os.getpid()

    def check(self) -> None:
        """Raise `ConnectionLostError` once the connection was interrupted."""
        if self.problem is not None:
            # From here on kombu learns from verify_connection that it has to reconnect.
            self.is_told = True
            raise ConnectionLostError(self.problem.reason) from self.problem

    def on_exception(self, error: ProviderError) -> None:
        """Record a problem that no call reports."""
        connection = self._connection
        # A provider that is restoring its connection has another state meanwhile. The messages received before are lost
        # to their consumers nevertheless.
        if isinstance(error, ConnectionLostError) or (connection is not None and connection.state != "connected"):
            self.problem = error
            self.wake()
        else:
            _log.warning("PYJMS-KOMBU-1 a problem of %s: %s %s", self._place, error.code, error.reason)

    def poison(self) -> None:
        """Give the connection up: a signal has interrupted one of its calls."""
        # No lock is taken: the interrupted frame may hold it, and runs in this thread.
        connection, self._connection = self._connection, None
        self.problem = ConnectionLostError(REASON)
        if connection is not None:
            connection.abort()
            # An orderly close may wait for a broker that does not answer, so another thread does it.
            close_later(connection, self.wake)

    def close(self) -> None:
        """Close the connection: unacknowledged messages are redelivered. A child process leaves its parent's alone."""
        connection, self._connection = self._connection, None
        if connection is not None and self.process == os.getpid():
            with suppress(ProviderError):
                connection.close()
        self.wake()

    # Sending

    def send(self, message: Outgoing, destination: Address) -> None:
        """Send; on return, a persistent message is safe. Raises `ProviderError`."""
        connection = self.connection
        envelope = message.envelope(
            destination, MessageId(f"ID:{self._id}:{next(self._numbers)}"), self.clock.time_ms()
        )
        with self._sending:
            # Opened at the first send: a connection that only consumes needs no second session.
            if self._sender is None:
                self._sender = connection.open_session(transacted=False)
            self._sender.send(envelope)

    # Receiving

    def _session(self) -> ProviderSession:
        """Return the session that receives. The caller holds its lock."""
        connection = self.connection
        if self._receiver is None:
            self._receiver = connection.open_session(transacted=False)
            # The provider may let the waiting thread read the socket itself, which saves a thread switch for each
            # message (decision 0603).
            self._waiter = self._receiver.waiter(self.clock)
        return self._receiver

    def subscribe(self, address: Address, selector: Selector | None = None, priority: int = 0) -> ProviderConsumer:
        """Create a consumer whose messages wake the waiting thread."""
        request = SubscribeRequest(
            address=address, selector=selector, no_local=False, durable_name=None, priority=priority
        )
        with self._receiving:
            return self._session().subscribe(request, self.wake)

    def poll(self, consumer: ProviderConsumer, *, waits: bool, is_shared: bool) -> Delivery | None:
        """Return the next message. With `waits` the consumer registers its interest if there is none; `is_shared`:
        other consumers want its messages, too.
        """
        self.check()
        with self._receiving:
            if not waits:
                return consumer.poll()
            delivery = consumer.poll_or_wait()
        if delivery is not None:
            self._interested.pop(consumer, None)  # the consumer has ended by itself
        # Interest ends later, when the consumer's program works. A topic's messages go to this consumer alone, so its
        # interest may continue.
        elif is_shared:
            self._interested[consumer] = None
        return delivery

    def catch_up(self, consumer: ProviderConsumer) -> None:
        """Wait until `poll` would return the messages present now."""
        self.check()
        with self._receiving:
            consumer.catch_up()

    def end_interest(self) -> None:
        """Let other consumers have the messages: no thread waits for them here."""
        # Not a loop over the dictionary: each iteration removes a consumer from it.
        while self._interested:
            self.release_prefetched(next(iter(self._interested)))

    def release_prefetched(self, consumer: ProviderConsumer) -> None:
        """Let other consumers have a consumer's messages, including those prefetched and not taken."""
        self._interested.pop(consumer, None)
        # Without the lock: the SPI allows this call to any thread, and the receiving session may be busy.
        consumer.set_interested(False)

    def end(self, consumer: ProviderConsumer) -> None:
        """Close a consumer: its deliveries stay unacknowledged."""
        self._interested.pop(consumer, None)
        if self.is_usable:
            with self._receiving:
                consumer.close()

    @defers_signals()
    def wait(self, until_ms: float | None) -> bool:
        """Wait until a message may have arrived; return False at `until_ms`. None: for ever. A signal ends it."""
        return deferred.wait(self._waiter, self._signal, until_ms)

    # Settling

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Settle messages. Raises `ProviderError`."""
        with self._receiving:
            self._session().acknowledge(deliveries)

    def requeue(self, deliveries: Sequence[Delivery]) -> None:
        """Requeue messages, marked redelivered. Raises `ProviderError`."""
        with self._receiving:
            self._session().recover(deliveries)

    def reject(self, delivery: Delivery) -> None:
        """Dead-letter a message; if the provider cannot, it is dropped, and logged. Raises `ProviderError`."""
        with self._receiving:
            session = self._session()
            try:
                session.reject(delivery, "a consumer has rejected it")
            except CapabilityError:
                _log.warning(
                    "PYJMS-KOMBU-2 %s has no dead letters, so message %s, which was rejected, is dropped",
                    self._place,
                    delivery.envelope.message_id,
                )
                # AMQP drops a rejected message where no dead letter exchange is declared; unsettled, it would be
                # redelivered to the next connection.
                session.acknowledge((delivery,))

    # Whole queues

    def count(self, address: Address) -> int:
        """Return the number of messages in a queue. Raises `CapabilityError`, `ProviderError`."""
        with self._receiving:
            # JMS has no call for the number of messages: a browser is the only portable way to count them.
            return sum(1 for _ in self._session().browse(address, None))

    def purge(self, address: Address) -> int:
        """Remove the messages that a queue can deliver now; return their number. Raises `ProviderError`."""
        consumer, removed = self.subscribe(address), 0
        try:
            while batch := self._batch(consumer):
                self.acknowledge(batch)
                removed += len(batch)
        finally:
            self.end(consumer)
        return removed

    def _batch(self, consumer: ProviderConsumer) -> list[Delivery]:
        batch: list[Delivery] = []
        while len(batch) < _BATCH:
            delivery = self.poll(consumer, waits=False, is_shared=True)
            if delivery is None:
                # A network request, so only once the prefetched messages are used up.
                self.catch_up(consumer)
                delivery = self.poll(consumer, waits=False, is_shared=True)
            if delivery is None:
                break
            batch.append(delivery)
        return batch
