"""Reader groups and staged units as operators see them, and how those are ended that no pipeline comes back for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms_provider.model.errors import UnknownObjectError
from pyjms_provider.model.observed import ObservedObject
from pyjms_provider.model.operations import operation
from pyjms_provider.model.statistics import statistic

if TYPE_CHECKING:
    from pyjms.spi.replay import StagedUnit, StageName
    from pyjms_provider.core.host.virtual_host import VirtualHost as RunningHost
    from pyjms_provider.core.transaction.reader_group import Group

__all__ = ["ManagedStagedUnit", "ReaderGroup", "group_names", "unit_name", "unit_names"]


def group_names(running: RunningHost) -> list[str]:
    """Return the names of the reader groups."""
    return [group.record.name for group in running.pipelines.groups.all()]


def unit_name(name: StageName) -> str:
    """Return by what a staged unit is known here: ``SINK:EPOCH:PARTITION:ATTEMPT``."""
    return f"{name.sink}:{name.epoch}:{name.partition}:{name.attempt}"


def unit_names(running: RunningHost) -> list[str]:
    """Return the names of the staged units."""
    return [unit_name(unit.name) for unit in running.pipelines.stages.units()]


class ReaderGroup(ObservedObject):
    """A reader group: a data pipeline's hold on messages of a queue or a durable subscription."""

    category = "reader_group"

    def _group(self) -> Group:
        for group in self.host.embedded.virtual_host.pipelines.groups.all():
            if group.record.name == self.name:
                return group
        raise UnknownObjectError(f"{self.host.path} has no reader group {self.name!r}: it was released")

    @statistic("The queue or topic that it reads.")
    def destination(self) -> str:
        """The queue or topic that it reads."""
        return str(self._group().address)

    @statistic("The durable subscription that it reads, CLIENT-ID/NAME; none: it reads a queue.")
    def subscription(self) -> str | None:
        """The durable subscription that it reads."""
        key = self._group().key
        return None if key is None else f"{key.client_id}/{key.name}"

    @statistic("Which messages it reserves; none: all.")
    def selector(self) -> str | None:
        """Which messages it reserves."""
        return self._group().record.selector_text

    @statistic("Tells its numbers from those of an earlier group of this name.")
    def generation(self) -> str:
        """Tells its numbers from those of others."""
        return self._group().record.generation

    @statistic("The highest number that is acknowledged.")
    def low(self) -> int:
        """The highest number that is acknowledged."""
        return self._group().report().low

    @statistic("The highest number that is reserved.")
    def high(self) -> int:
        """The highest number that is reserved."""
        return self._group().report().high

    @statistic("Messages that it holds, which nobody else gets.", unit="messages")
    def held(self) -> int:
        """How many messages it holds."""
        report = self._group().report()
        return report.high - report.low

    @statistic("When it was opened last, in milliseconds since 1970 UTC.", unit="ms")
    def opened_at_ms(self) -> int:
        """When it was opened last."""
        return self._group().record.opened_ms

    @operation(
        "End the group: what it holds goes back to its place, marked redelivered. Its pipeline stops with an error."
    )
    def release(self) -> int:
        """Release it; return how many messages went back."""
        return self.host.embedded.virtual_host.pipelines.groups.release(self.name)


class ManagedStagedUnit(ObservedObject):
    """A staged unit: messages of a data pipeline that wait, unseen, until their epoch is promoted."""

    category = "staged_unit"

    def _unit(self) -> StagedUnit:
        for unit in self.host.embedded.virtual_host.pipelines.stages.units():
            if unit_name(unit.name) == self.name:
                return unit
        raise UnknownObjectError(f"{self.host.path} has no staged unit {self.name!r}: it was promoted or discarded")

    @statistic("Who writes.")
    def sink(self) -> str:
        """Who writes."""
        return self._unit().name.sink

    @statistic("The epoch that it is promoted with.")
    def epoch(self) -> int:
        """The epoch that it is promoted with."""
        return self._unit().name.epoch

    @statistic("Messages that wait in it.", unit="messages")
    def messages(self) -> int:
        """How many messages wait in it."""
        return self._unit().messages

    @statistic("When it was staged, in milliseconds since 1970 UTC.", unit="ms")
    def staged_at_ms(self) -> int:
        """When it was staged."""
        return self._unit().staged_ms

    @statistic("When the broker discards it, in milliseconds since 1970 UTC.", unit="ms")
    def discarded_after_ms(self) -> int:
        """When the broker discards it."""
        return self._unit().discarded_after_ms

    @operation("Drop its messages, which nobody has seen. Its pipeline's epoch then fails, and is written again.")
    def discard(self) -> None:
        """Discard it."""
        self.host.embedded.virtual_host.pipelines.stages.discard([self._unit().name])
