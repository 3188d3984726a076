"""A route that is stopped, has its rules altered, and is started again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyjms.spark import pipelines
from pyjms.spark.connecting import close_links
from tests.pyjms.spark.messages_of import fill, look
from tests.pyjms.spark.served import ServedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path / "broker") as broker:
        yield broker
        close_links()


SLOW, STARTS = "Python worker failed to connect back", 8
"""Spark gives a Python process ten seconds to start, and no setting alters that; the command starts its query again, and so does `Route`."""


class Route:
    """A route with rules that send everything to one queue."""

    def __init__(self, session: SparkSession, url: str, folder: Path) -> None:
        self._session = session
        self._url = url
        self._rules = folder / "rules.toml"
        self._checkpoint = (folder / "checkpoint").as_uri()
        self.told: set[str] = set()

    def run(self, queue: str, **more: Any) -> Exception | None:
        """Send what is there to `queue`; return what stopped it."""
        self._rules.write_text(f'[[rule]]\nselector = "TRUE"\nto = ["queue:{queue}"]\n')
        problem = self._once(**more)
        for _ in range(STARTS):
            if problem is None or SLOW not in str(problem):
                break
            problem = self._once(**more)
        return problem

    def _once(self, **more: Any) -> Exception | None:
        query = pipelines.route(
            self._session,
            pipelines.Rules(self._rules, self.told.add),
            url=self._url,
            source="queue:orders",
            group="r",
            checkpoint=self._checkpoint,
            once=True,
            **more,
        )
        try:
            query.awaitTermination()
        except Exception as error:
            return error
        return None

    def look(self, queue: str) -> list[str]:
        return sorted(look(self._url, queue))


def die(epoch: int, count: int) -> None:
    if epoch == 1:
        raise RuntimeError("the driver dies here")


@pytest.mark.requires("spark")
@pytest.mark.timeout(300)
def test_a_batch_that_was_written_ends_by_its_own_rules_and_the_next_one_goes_by_the_new(
    plain_spark: SparkSession, broker: ServedBroker, tmp_path: Path
) -> None:
    route = Route(plain_spark, broker.url, tmp_path)
    old = fill(broker.url, 3)
    of_two = {"maxMessagesPerBatch": 2}
    assert route.run("east", made=die, options=of_two) is not None, "once the batch is promoted, and before Spark knows"
    new = fill(broker.url, 2, first=3)
    (tmp_path / "checkpoint" / "rules" / "_7").write_text("half of", encoding="utf-8")  # whoever wrote it has died
    assert route.run("west") is None
    assert (route.look("east"), route.look("west")) == (old, new)
    assert len(route.told) == 1
    assert "batch 1 was written by the rules before" in min(route.told)
    assert route.run("south") is None, "rules that were altered between two runs count at once"
    last = fill(broker.url, 1, first=5)
    assert route.run("north") is None
    assert (route.look("south"), route.look("north"), len(route.told)) == ([], last, 1)
    assert sorted(each.name for each in (tmp_path / "checkpoint" / "rules").iterdir()) == [".3.crc", "3"]


@pytest.mark.requires("spark")
@pytest.mark.timeout(300)
def test_a_batch_that_was_not_written_goes_by_the_new_rules(
    plain_spark: SparkSession, broker: ServedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = Route(plain_spark, broker.url, tmp_path)
    texts = fill(broker.url, 3)
    with monkeypatch.context() as patch:
        patch.setattr(pipelines, "promote", lambda batch, epoch, **options: die(1, 0))
        assert route.run("that refuses") is not None
    assert route.run("west") is None, "else rules that cannot be obeyed could not be mended"
    assert (route.look("that refuses"), route.look("west"), route.told) == ([], texts, set())
