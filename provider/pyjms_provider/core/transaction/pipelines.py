"""What a virtual host has for data pipelines: reader groups and staged units, and how they are found again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector import selector_or_none
from pyjms_provider.core.journal.journal import Changes, PipelineChanges
from pyjms_provider.core.transaction.branches_in_doubt import adopted
from pyjms_provider.core.transaction.reader_group import Group
from pyjms_provider.core.transaction.reader_groups import GroupTable
from pyjms_provider.core.transaction.stages import StageTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.journal.journal import Journal, QueueNumber, QueueRecord, RecoveredGroup, Recovery
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store.paging import PagingMessageStore
    from pyjms_provider.core.timed import HasTimes

__all__ = ["FoundPipelines", "Pipelines"]

_log = logging.getLogger(__name__)


class Pipelines:
    """See the module."""

    def __init__(self, host: VirtualHost, on_due: Callable[[HasTimes, int], None] | None) -> None:
        self.groups = GroupTable(host)
        self.stages = StageTable(host, on_due)


class FoundPipelines:
    """What is known of groups and staged units while a host is restored: first come the queues' messages, then these."""

    def __init__(self, recovery: Recovery) -> None:
        self._groups = {group.record.name: group for group in recovery.groups}  # of one name the newest counts
        self._surplus = [group for group in recovery.groups if self._groups[group.record.name] is not group]
        self._stages = recovery.stages
        self._markers = recovery.stage_markers
        self._records = {record.number: record for record in recovery.queues}
        self._counts = {
            (group.record.queue, message): count
            for group in self._groups.values()
            for _, message, count in group.reserved
        }
        self._entries: dict[tuple[QueueNumber, ReferenceId], QueueEntry] = {}

    def count_of(self, number: QueueNumber, reference: MessageReference) -> int | None:
        """Return how often a message was handed out that a group holds; None: no group holds it."""
        return self._counts.get((number, reference.id))

    def found(self, number: QueueNumber, entry: QueueEntry) -> None:
        """Note a message that is in its queue again."""
        if (number, entry.reference.id) in self._counts:
            self._entries[number, entry.reference.id] = entry

    def restore(
        self, host: VirtualHost, journal: Journal, queues: Mapping[QueueNumber, Queue], store: PagingMessageStore
    ) -> None:
        """Make groups and units again; before anybody uses the queues."""
        if self._surplus:  # nobody had answered when they were made
            released = [group.record.number for group in self._surplus]
            journal.note(Changes(pipelines=PipelineChanges(released=released)))
        for found in self._groups.values():
            queue = queues.get(found.record.queue)
            if queue is not None:
                self._restore_group(host, found, self._records[found.record.queue], queue)
        stages = host.pipelines.stages
        for sink, epoch in self._markers:
            stages.restore_marker(sink, epoch)
        for stage in self._stages:
            stages.restore(stage.record, adopted(stage.messages, queues, store))

    def _restore_group(self, host: VirtualHost, found: RecoveredGroup, kept: QueueRecord, queue: Queue) -> None:
        record = found.record
        is_own = kept.subscription is None
        try:
            selector = selector_or_none(record.selector_text) if is_own else None
        except InvalidSelectorError as error:
            _log.error(
                "PYJMS-BROKER-25 reader group %r has a selector that this version does not understand, so it reserves what "
                "comes: release it. %s",
                record.name,
                error.problem,
            )
            selector = None
        group = Group(record, kept.address, kept.subscription, selector, queue)
        for number, message, count in found.reserved:
            group.restore(number, self._entries.get((record.queue, message)), count)
        host.pipelines.groups.restore(group)
