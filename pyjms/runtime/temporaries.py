"""Temporary destinations of one connection: created, deleted on request, and when the application has dropped them (§4.4.3).

A temporary destination that the application has dropped is deleted at the next occasion on which this connection
creates another one or closes. It is not deleted in the finalizer itself, which may run anywhere, also under a lock.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque

from pyjms.messages.destinations import JmsTemporaryQueue, JmsTemporaryTopic
from pyjms.runtime.error_mapping import mapped_errors
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError, DestinationInUseError, ProviderError
from pyjms.spi.provider import ProviderConnection

_log = logging.getLogger("pyjms.runtime")


class Temporaries:
    """Makes and deletes one connection's temporary destinations. Any thread."""

    __slots__ = ("_dropped", "_provider")

    def __init__(self, provider: ProviderConnection) -> None:
        self._provider = provider
        self._dropped: deque[Address] = deque()

    def poison(self, provider: ProviderConnection) -> None:
        """Use a stand-in that refuses each call: the connection was given up."""
        self._provider = provider

    def create_queue(self) -> JmsTemporaryQueue:
        """Make a temporary queue."""
        queue = JmsTemporaryQueue(self._create(AddressKind.QUEUE), self._delete)
        # The finalizer only notes the address: it may run in any thread, under any lock.
        weakref.finalize(queue, self._dropped.append, queue.address).atexit = False
        return queue

    def create_topic(self) -> JmsTemporaryTopic:
        """Make a temporary topic."""
        topic = JmsTemporaryTopic(self._create(AddressKind.TOPIC), self._delete)
        weakref.finalize(topic, self._dropped.append, topic.address).atexit = False
        return topic

    def seen(self, address: Address) -> JmsTemporaryQueue | JmsTemporaryTopic:
        """Return an object for an address in a received message; dropping it deletes nothing."""
        if address.kind is AddressKind.QUEUE:
            return JmsTemporaryQueue(address, self._delete)
        return JmsTemporaryTopic(address, self._delete)

    def _create(self, kind: AddressKind) -> Address:
        self._delete_dropped()
        with mapped_errors:
            return self._provider.create_temporary(kind)

    def _delete(self, address: Address) -> None:
        with mapped_errors:
            self._provider.delete_temporary(address)

    def _delete_dropped(self) -> None:
        # Addresses that are put back into the list wait for the next occasion.
        for _ in range(len(self._dropped)):
            try:
                address = self._dropped.popleft()
            except IndexError:
                return  # another thread was faster
            try:
                self._provider.delete_temporary(address)
            except DestinationInUseError:
                self._dropped.append(address)  # its consumer lives on without the object: later
            except DestinationError:
                continue  # deleted by the application
            except ProviderError as error:  # for example without a connection for the moment: later
                self._dropped.append(address)
                _log.debug("%s was dropped, and is deleted later: %s", address, error)
                return
