"""A cluster of three brokers over one PostgreSQL, all of which fail in every way there is while clients of all kinds work: nothing may be lost,
doubled without its flag, reordered or torn.

``python -m tests.system.cluster.faults KILLS SEED``: sections of 20 faults each, until so many members were killed. Each is judged by itself.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random

from pyjms.history import read, record
from pyjms_tck.background import Background
from tests.system.cluster.crowd import PATIENCE_S, TOPICS, Crowd
from tests.system.cluster.judging import judge, told
from tests.system.cluster.site import FAULTS, IS_DEATH, KILL, POSTGRESQL, ClusterSite, Fault, Member, Settings

_log = logging.getLogger(__name__)
_IN_A_SECTION = 20
_LEASE_MS = 2_000
_PATIENCE_S = 3 * PATIENCE_S


def planned(random: Random, number: int) -> list[Fault]:
    """Return so many faults; at least a third are deaths, and one has PostgreSQL restarted."""
    kinds = random.choices(FAULTS, [each.share for each in FAULTS], k=number - number // 4 - 1)
    plan = [*kinds, POSTGRESQL, *[KILL] * (number // 4)]
    random.shuffle(plan)
    return plan


def settings_for(seed: int) -> Settings:
    """Return the settings of a cluster whose first section has that seed: with one of two, a crash of PostgreSQL takes no acknowledgement away."""
    return Settings(lease_ms=_LEASE_MS, acknowledge="forced" if seed % 2 else "written")


class Section:
    """Some faults, with a crowd and a history of their own."""

    def __init__(self, site: ClusterSite, folder: Path, seed: int) -> None:
        self._site = site
        self._folder = folder
        self._seed = seed
        self._random = Random(seed)
        self.done: Counter[str] = Counter()

    def run(self) -> None:
        crashes_ns: list[int] = []
        with record(self._folder) as recording:
            crowd = Crowd(self._site, recording, self._seed)
            plan = planned(self._random, _IN_A_SECTION)
            while plan:
                together = [plan.pop() for _ in range(min(len(plan), self._random.choice([1, 2, 2, 3])))]
                begun_ns = recording.now_ns()
                _log.info("seed %d: %s", self._seed, ", ".join(each.name for each in together))
                self._do(together)
                self._site.await_whole()
                crowd.check_that_all_work()
                recording.broker_died(begun_ns)
                if POSTGRESQL in together:
                    crashes_ns += (begun_ns, recording.now_ns())
            crowd.end()
        found = judge(read(self._folder), [(f"topic://{TOPICS[0]}", "/shared")], crashes_ns)
        _log.info("seed %d: %s", self._seed, told(found, self.done))
        for (name, code, text), number in crowd.errors.most_common(30):
            _log.debug("%d x %s: %s %s", number, name, code, text)
        assert found.events > 1_000
        assert found.faults == [], f"seed {self._seed}: {found.faults[:10]}"

    def _begin(self, fault: Fault, member: Member, random: Random) -> Background[None]:
        return Background(lambda: fault.act(self._site, member, random), _PATIENCE_S)

    def _do(self, together: list[Fault]) -> None:
        """Have these faults at the same time, each at a member of its own, and return when they are over."""
        members = self._random.sample(self._site.members, len(together))
        acts = [
            self._begin(fault, member, Random(self._random.random()))
            for fault, member in zip(together, members, strict=True)
        ]
        for each in acts:
            each.result()
        self.done.update(each.name for each in together)


def main(kills: str = "1", seed: str = "1") -> None:
    """Run sections until so many members were killed."""
    number, first = 0, int(seed)
    done: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place, ExitStack() as ends:
        folder = Path(place)
        site = ClusterSite(folder, settings_for(first))
        ends.callback(site.close)
        while not number or sum(done[name] for name in IS_DEATH) < int(kills):
            section = Section(site, folder / f"history-{number}", first + number)
            section.run()
            done += section.done
            number += 1
    print(f"{number} sections: {dict(done)}")  # noqa: T201


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    _log.setLevel(logging.INFO)
    main(*sys.argv[1:])
