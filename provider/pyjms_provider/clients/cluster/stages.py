"""The staged units of a cluster: a unit is stored in each shard that it sends to, and an epoch is promoted in all of them.

Before any shard promotes, the units of the epoch are written to the promotion log. A promotion that was interrupted is finished from there,
with these units, by the next call that concerns its sink. The *home* of a sink, the shard that a hash of its name gives, promotes last: its
marker is the sink's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pyjms.spi.errors import StageError
from pyjms.spi.replay import StagedUnit, StageName, Stages
from pyjms_provider.cluster.contracts import Promotion
from pyjms_provider.cluster.placement import ShardPlace

if TYPE_CHECKING:
    from pyjms_provider.clients.cluster.reader_groups import ShardConnections
    from pyjms_provider.cluster.contracts import PromotionLog

_Result = TypeVar("_Result")


class ClusterStages(Stages):
    """The staged units of all shards. A call whose shard gets another leader meanwhile is made again there: each may be repeated."""

    def __init__(self, connections: ShardConnections, promotions: Callable[[], PromotionLog]) -> None:
        """`connections`: those of the client; `promotions` returns the log of the cluster."""
        self._connections = connections
        self._promotions = promotions

    def promote(self, sink: str, epoch: int, units: Sequence[StageName]) -> bool:
        log = self._promotions()
        marker = self.marker(sink)  # finishes an earlier promotion
        if marker is not None and marker >= epoch:
            return False
        self._check(sink, epoch, units)
        wanted = Promotion(sink, epoch, tuple(sorted(units)))
        found = log.begin(wanted)
        self._finish(found)
        return found == wanted

    def _check(self, sink: str, epoch: int, units: Sequence[StageName]) -> None:
        """Raise `StageError` if a unit does not exist, or is another sink's or epoch's."""
        known = {unit.name for unit in self.units(sink)}
        for name in units:
            if name.sink != sink or name.epoch != epoch:
                raise StageError(f"{name} is not of sink {sink!r} and epoch {epoch}")
            if name not in known:
                raise StageError(f"there is no staged unit {name}: it was discarded, or never staged")

    def _finish(self, promotion: Promotion) -> None:
        """Promote in all shards, in the home last; those that have done it already do nothing."""
        home = self._home(promotion.sink)
        shards = [shard for shard in range(self._connections.placement.shards) if shard != home]
        for shard in (*shards, home):
            self._call(shard, lambda stages: _promote(stages, promotion))
        self._promotions().end(promotion)

    def discard(self, units: Sequence[StageName]) -> None:
        for shard in range(self._connections.placement.shards):
            self._call(shard, lambda stages: stages.discard(units))

    def marker(self, sink: str) -> int | None:
        unfinished = self._promotions().find(sink)
        if unfinished is not None:
            self._finish(unfinished)
        return self._call(self._home(sink), lambda stages: stages.marker(sink))

    def units(self, sink: str | None = None) -> Sequence[StagedUnit]:
        found: dict[StageName, StagedUnit] = {}
        for shard in range(self._connections.placement.shards):
            for unit in self._call(shard, lambda stages: stages.units(sink)):
                other = found.get(unit.name)
                found[unit.name] = unit if other is None else _merged(other, unit)
        return [found[name] for name in sorted(found)]

    def _home(self, sink: str) -> int:
        return self._connections.placement.shard_of_sink(sink)

    def _call(self, shard: int, act: Callable[[Stages], _Result]) -> _Result:
        return self._connections.shard(ShardPlace(shard)).call(lambda connection: act(connection.stages()))


def _promote(stages: Stages, promotion: Promotion) -> None:
    """Promote what a shard has of the units."""
    here = {unit.name for unit in stages.units(promotion.sink)}
    stages.promote(promotion.sink, promotion.epoch, [name for name in promotion.units if name in here])


def _merged(one: StagedUnit, other: StagedUnit) -> StagedUnit:
    return replace(
        one,
        messages=one.messages + other.messages,
        staged_ms=min(one.staged_ms, other.staged_ms),
        discarded_after_ms=min(one.discarded_after_ms, other.discarded_after_ms),
    )
