"""The branches that a journal found in doubt, put together again from the queues that it restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spi.envelope import AddressKind
from pyjms_provider.core.message.reference import MessageReference, ReferenceId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyjms_provider.core.host.admission import DuplicateClaim
    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.journal.journal import Journal, QueueNumber, Recovery
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store.paging import PagingMessageStore

__all__ = ["BranchesInDoubt", "adopted"]


class BranchesInDoubt:
    """What is known of branches while a host is restored: first come the queues' messages, then the branches."""

    def __init__(self, recovery: Recovery) -> None:
        self._branches = recovery.branches
        self._heuristics = recovery.heuristics
        self._held: dict[tuple[QueueNumber, ReferenceId], QueueEntry | None] = {
            place: None for branch in recovery.branches for place in branch.removals
        }

    def __len__(self) -> int:
        return len(self._branches)

    def holds(self, number: QueueNumber, reference: MessageReference) -> bool:
        """Return whether a branch in doubt received this message from this queue."""
        return (number, reference.id) in self._held

    def found(self, number: QueueNumber, entry: QueueEntry) -> None:
        """Note a message that is in its queue again."""
        if (number, entry.reference.id) in self._held:
            self._held[number, entry.reference.id] = entry

    def restore(
        self, host: VirtualHost, journal: Journal, queues: Mapping[QueueNumber, Queue], store: PagingMessageStore
    ) -> None:
        """Make the branches again; before anybody uses the queues."""
        branches = host.branches
        for branch in self._branches:
            received = [entry for place in branch.removals if (entry := self._held[place]) is not None]
            sent = list(adopted(branch.messages, queues, store))
            claims = _claims(host, dict.fromkeys(reference for _, reference in sent), journal)
            branches.restore(branch.xid, branch.prepared_ms, sent, received, claims)
        for outcome in self._heuristics:
            branches.restore_heuristic(outcome.xid, committed=outcome.commit)


def _claims(host: VirtualHost, references: Iterable[MessageReference], journal: Journal) -> list[DuplicateClaim]:
    """Return the producers' ids of messages that a branch has sent: nobody knows yet whether these will arrive."""
    claims: list[DuplicateClaim] = []
    for reference in references:  # one by one, as they may be large
        for envelope in journal.read([reference.id]).values():
            address = envelope.destination
            if address.temporary:
                continue
            channel = host.queue(address.name) if address.kind is AddressKind.QUEUE else host.topic(address.name)
            claim = host.doorkeeper.claim_again(channel, envelope)
            if claim is not None:
                claims.append(claim)
    return claims


def adopted(
    messages: Iterable[tuple[QueueNumber, MessageReference]],
    queues: Mapping[QueueNumber, Queue],
    store: PagingMessageStore,
) -> Iterator[tuple[Queue, MessageReference]]:
    """Yield queue and reference of messages, the same reference for several queues; without queues that are gone."""
    known: dict[ReferenceId, MessageReference] = {}
    for number, found in messages:
        if number not in queues:
            continue
        reference = known.setdefault(found.id, found)
        if reference is found and not reference.journaled:
            reference.journaled = True
            reference.holders = 0
        reference.shared = reference.shared or reference is not found
        store.adopt(reference)
        yield queues[number], reference
