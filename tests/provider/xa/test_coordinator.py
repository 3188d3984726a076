"""A coordinator drives the broker and a SQL database together, and is killed between every two steps: both agree, always."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any
from urllib.parse import quote

import pytest

from tests.needs.declaring import needing
from tests.provider.postgresql import PostgresqlServer

ROOT = Path(__file__).parents[3]
KILLS = int(os.environ.get("PYJMS_KILLS", "4"))
IS_SOAK = "PYJMS_KILLS" in os.environ
KILLED = -9

pytestmark = [pytest.mark.realises("MOM-10", "MOM-9"), pytest.mark.timeout(600)]


class Worker:
    """The process that forks children."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.provider.xa.worker"]
        self._process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def do(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.end()


class Shop:
    """A broker's store, a bank, a coordinator's log, and the deaths of those who work there."""

    def __init__(
        self, worker: Worker, directory: Path, orders: list[str], options: str = "&synchronous=off", server: str = ""
    ) -> None:
        """`options`: a process that is killed loses nothing that it has written, so nothing need be forced to the disk.

        `server`: the URL of an empty schema, in place of the files that all else is kept in.
        """
        self._worker = worker
        self._orders = orders
        self._directory = directory
        self._options = options
        self._store = quote(server, safe="") or f"sqlite:///{directory / 'broker.db'}"
        self._bank = server or f"sqlite:///{directory / 'bank.db'}"
        self._notes = directory / "notes"

    def open(self) -> Shop:
        """Make the directory, and send the orders."""
        self._directory.mkdir()
        self.do("fill", orders=self._orders)
        return self

    def copy(self, directory: Path) -> Shop:
        """Return another shop that is as far as this one. Nobody may be working here."""
        copytree(self._directory, directory)
        return Shop(self._worker, directory, self._orders, self._options)

    def try_to(self, what: str, **more: object) -> tuple[int, Any]:
        """Have a child do something; return how it ended, and what it answered."""
        self._notes.unlink(missing_ok=True)
        task = {
            "url": f"vm://shop?store={self._store}{self._options}",
            "bank": self._bank,
            "log": str(self._directory / "coordinator.log"),
            "notes": str(self._notes),
        }
        answer = self._worker.do({**task, "do": what, **more})
        return answer["status"], answer["answer"]

    def do(self, what: str, *, expected: int = 0, **more: object) -> Any:
        """Do the same, and it must end so."""
        status, answer = self.try_to(what, **more)
        assert status == expected, (status, answer, self.steps())
        return answer

    def steps(self) -> list[str]:
        """Return the steps of the child that was the last to take any."""
        return self._notes.read_text(encoding="utf-8").splitlines() if self._notes.exists() else []

    def check(self, seen: dict[str, list[str]]) -> None:
        """Both resources tell the same story, in which nothing is missing or twice."""
        assert seen["in doubt"] == []
        assert sorted(seen["bills"]) == [f"bill for {entry}" for entry in seen["ledger"]]
        assert sorted([*seen["ledger"], *seen["orders"]]) == sorted(self._orders)

    def finish(self) -> None:
        """Recover, then do the rest; all must agree after either."""
        after_recovery, at_the_end = self.do("finish")
        self.check(after_recovery)
        self.check(at_the_end)
        assert at_the_end["orders"] == []


@pytest.fixture(scope="module")
def shop(worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """One with one order, to be copied."""
    return Shop(worker, tmp_path_factory.mktemp("shops") / "shop", ["espresso"]).open()


@pytest.fixture(scope="module")
def steps(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The steps of a child that nobody kills."""
    copy = shop.copy(tmp_path_factory.mktemp("steps") / "shop")
    copy.do("trade")
    return copy.steps()


def test_both_resources_agree_wherever_the_process_dies(shop: Shop, steps: list[str], tmp_path: Path) -> None:
    assert {"started broker", "prepared bank", "prepared broker", "decided", "committed bank", "sent"} <= set(steps)
    assert {"before the journal writes (prepare)", "after the journal wrote (outcome)", "bank commits"} <= set(steps)
    for number, step in enumerate(steps, 1):
        copy = shop.copy(tmp_path / f"{number}")
        copy.do("trade", expected=KILLED, last=number)
        assert copy.steps()[-1] == step
        copy.finish()


@pytest.mark.parametrize("step", ["prepared broker", "decided", "committed bank"])
def test_recovery_may_die_as_well(shop: Shop, steps: list[str], tmp_path: Path, step: str) -> None:
    killed = shop.copy(tmp_path / "killed")
    killed.do("trade", expected=KILLED, last=steps.index(step) + 1)
    for death in count(1):
        copy = killed.copy(tmp_path / f"{death}")
        status, _ = copy.try_to("recover", last=death)
        copy.finish()
        if status != KILLED:
            break
    assert death > 3, "nothing was killed"


@pytest.mark.parametrize("store", ["sqlite", needing("postgresql")])
@pytest.mark.timeout(120 + 10 * KILLS)
def test_whoever_dies_again_and_again_gets_there(
    worker: Worker, tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    random = Random(4711)
    orders = [f"order {number:03}" for number in range(2 * KILLS)]  # more than are done between so many deaths
    server = request.getfixturevalue("postgresql").make_store() if store == "postgresql" else ""
    shop = Shop(worker, tmp_path / "shop", orders, options="", server=server).open()
    for _ in range(KILLS):
        shop.do("trade", expected=KILLED, last=random.randint(1, 60))
    shop.do("recover")
    seen = shop.do("look")
    shop.check(seen)
    assert len(seen["ledger"]) > KILLS // 2


def test_both_agree_where_both_are_on_postgresql(
    worker: Worker, steps: list[str], tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    """The bank has PREPARE TRANSACTION there. One death at each step that differs from all others, or at some of these."""
    different = [step for step in dict.fromkeys(steps) if not step.endswith("(other)")]
    different.remove("bank commits")  # which is one statement there
    for step in different if IS_SOAK else Random().sample(different, len(different) // 3):
        number = steps.index(step) + 1 - steps[: steps.index(step)].count("bank commits")
        shop = Shop(worker, tmp_path / f"{number}", ["espresso"], options="", server=postgresql.make_store()).open()
        shop.do("trade", expected=KILLED, last=number)
        assert shop.steps()[-1] == step
        shop.finish()


def test_a_shop_whose_books_do_not_agree_is_found(shop: Shop, steps: list[str], tmp_path: Path) -> None:
    """The check can fail: without recovery, what was decided and not finished is missing on one side."""
    copy = shop.copy(tmp_path / "shop")
    copy.do("trade", expected=KILLED, last=steps.index("committed bank") + 1)
    with pytest.raises(AssertionError):
        copy.check(copy.do("look"))
