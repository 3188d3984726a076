"""One run: start the sites and the orders, kill a site on the way, wait until all orders have ended, and judge.

The processes of the sites are started, killed and ended by their own ids.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from threading import Event
from typing import Any, TypeAlias

from pyjms import ConnectionFactory, Session
from pyjms.demo.books import Entry, Happening, OtherRunError, StageCounter, Verdict, judge, total
from pyjms.demo.plan import Plan, Record
from pyjms.demo.sites.chain import FLOW, HERE, SITES, THERE, WORKS, Work, count_lines, open_books, read_lines
from pyjms.flows import FlowClient, Status
from pyjms.flows.engine import EVENTS
from pyjms.flows.store import open_store
from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.words import counted

# From records to orders, and the expected end of each: computed from the file alone. Pure.

_RECORDS_MAX = 50
_ORDERS_WANTED = 20
"""The minimum number of orders: a small file makes orders of few records, rather than one of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Records that stay together. An order with an incomplete record cannot be delivered, and is compensated."""

    number: int
    records: tuple[Record, ...]
    missing: tuple[int, ...]
    """The ids of the incomplete records."""

    @property
    def instance(self) -> str:
        """The id of its instance: always the same, so that it is started once."""
        return f"order-{self.number}"

    def data(self, plan: Plan) -> dict[str, Any]:
        """Return the order's data for the companies, as JSON values."""
        return {
            "order": self.number,
            "records": [[record.id, plan.amount_of(record)] for record in self.records],
            "missing": list(self.missing),
        }

    def entries(self, plan: Plan) -> Iterator[Entry]:
        """Yield the lines that a company must write for the order."""
        for record in self.records:
            yield Entry(record.id, plan.amount_of(record), str(self.number))


def make_orders(plan: Plan) -> tuple[Order, ...]:
    """Return the orders, in the order of the file."""
    records = plan.table.records
    # One instance for each of 6,099 records would take minutes (decision 0502).
    size = min(_RECORDS_MAX, max(1, len(records) // _ORDERS_WANTED))
    parts = [records[first : first + size] for first in range(0, len(records), size)]
    return tuple(
        Order(
            number=number,
            records=part,
            missing=tuple(record.id for record in part if not plan.is_complete(record)),
        )
        for number, part in enumerate(parts, 1)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The orders with the same expected end."""

    status: Status
    orders: int
    found: int
    records: int
    total: Fraction
    wrong: tuple[str, ...]
    """Those that ended otherwise, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All verdicts. `left_over` has the number of messages in each queue that should be empty."""

    works: tuple[tuple[Work, Verdict], ...]
    fates: tuple[Fate, ...]
    left_over: Mapping[str, int]

    @property
    def adds_up(self) -> bool:
        """Whether all results are correct."""
        is_right = all(verdict.adds_up for _, verdict in self.works) and not any(fate.wrong for fate in self.fates)
        return is_right and not self.left_over


def judge_orders(
    plan: Plan,
    orders: Sequence[Order],
    statuses: Mapping[str, Status],
    written: Mapping[str, Sequence[Entry]],
    left_over: Mapping[str, int],
) -> Outcome:
    """Judge. statuses: by instance. written: by kind of work."""
    works = []
    for work in WORKS:
        comes_by = [
            order for order in orders if (work.done_for_incomplete if order.missing else work.done_for_complete)
        ]
        expected = [entry for order in comes_by for entry in order.entries(plan)]
        works.append((work, judge(work.name, expected, written.get(work.name, ()))))
    fates = (
        _fate(plan, Status.COMPLETED, [order for order in orders if not order.missing], statuses),
        _fate(plan, Status.COMPENSATED, [order for order in orders if order.missing], statuses),
    )
    left = {queue: count for queue, count in left_over.items() if count}
    return Outcome(works=tuple(works), fates=fates, left_over=left)


def _fate(plan: Plan, status: Status, orders: Sequence[Order], statuses: Mapping[str, Status]) -> Fate:
    wrong = tuple(order.instance for order in orders if statuses.get(order.instance) is not status)
    return Fate(
        status=status,
        orders=len(orders),
        found=len(orders) - len(wrong),
        records=sum(len(order.records) for order in orders),
        total=total(entry for order in orders for entry in order.entries(plan)),
        wrong=wrong,
    )


Watch: TypeAlias = Callable[[], None]
Tell: TypeAlias = Callable[[str], None]

_LOOK_S = 0.2
"""The interval at which the progress of the orders is checked."""
_AWAY_MS = 1_500
"""How long a killed site stays down before it is restarted."""
_DRAIN_MS = 15_000
"""How long answers that are no longer needed may take to leave the queues after the end of all orders."""
_ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The kill and restart of a site."""

    site: str
    ended: int
    """The number of orders that had ended before."""
    away_ms: float


class Run:
    """One run. `reach`, `run` and `finish` may be called once each, in this order; `close` at the end, always."""

    def __init__(self, plan: Plan, folder: Path, kills: int, clock: Clock | None = None) -> None:
        """kills: how many times a site is killed, one after the other."""
        self.plan = plan
        self.orders = make_orders(plan)
        self.folder = folder
        self.is_resumed = False
        self.deaths: list[Death] = []
        self._kills = kills
        self._clock = clock or SystemClock()
        self._pause = Event()
        self.sites: dict[str, SiteProcess] = {}
        self.counters = (
            *(
                StageCounter(
                    work.name, self._records(complete=work.done_for_complete, incomplete=work.done_for_incomplete)
                )
                for work in WORKS
            ),
            StageCounter(_ENDED, len(self.orders)),
        )

    def _records(self, *, complete: bool, incomplete: bool) -> int:
        return sum(len(each.records) for each in self.orders if (incomplete if each.missing else complete))

    def reach(self) -> None:
        """Start the sites. Raises `SiteError`; `OtherRunError` when the folder holds an unfinished run over other records."""
        # Before any process starts: an unusable folder must leave nothing running.
        self._open_sheet()
        self.sites = {name: SiteProcess(name, self.folder) for name in SITES}
        here = self.sites[HERE]
        # Created before the sites start, as several of them would create it at the same time.
        self._store = open_store(f"sqlite:///{here.flows}")
        self._store.deploy(FLOW)
        self._books = {name: open_books(site.books) for name, site in self.sites.items()}
        for site in self.sites.values():
            site.launch()
        for site in self.sites.values():
            site.announced()
        for site in self.sites.values():
            site.tell(self._urls())
        # Also in a resumed run: an instance has a fixed id, so starting it again has no effect.
        self._begin_orders(here.url)

    def run(self, watch: Watch = lambda: None, tell: Tell = lambda _: None) -> Outcome:
        """Return the outcome when all orders have ended. Raises `SiteError`.

        watch: called several times a second. tell: called with a line when a site was killed, or has restarted.
        """
        for number in range(self._kills):
            # Spread over the run: a kill at its very beginning or end would hit little work.
            mark = len(self.orders) * (number + 1) // (self._kills + 2)
            ended = self._wait_for(mark, watch)
            if ended < len(self.orders):
                # The sites take turns, beginning with the one that does not run the engine.
                self._kill_and_start(SITES[(number + 1) % len(SITES)], ended, watch, tell)
        self._wait_for(len(self.orders), watch)
        # Before the judgement, which must not run while late answers still change the queues.
        left_over = self._left_over(watch)
        instances = self._store.instances(flow=FLOW.name, limit=len(self.orders))
        written = {work: lines for books in self._books.values() for work, lines in read_lines(books).items()}
        statuses: dict[str, Status] = {each.id: each.status for each in instances}
        return judge_orders(self.plan, self.orders, statuses, written, left_over)

    def finish(self) -> None:
        """Delete a run whose outcome was reported."""
        self._write_sheet(is_finished=True)

    def close(self) -> None:
        """End all processes that were started."""
        for site in self.sites.values():
            site.kill()
        # The store is opened after the sites were started; a run that ended before has neither.
        if self.sites:
            self._store.close()
            for books in self._books.values():
                books.dispose()

    # The sheet

    def _open_sheet(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            sheet = self._read_sheet()
            # A folder with other content belongs to another program, and this run would remove two folders from it.
            others = {each.name for each in self.folder.iterdir()} - {
                self._new_sheet.name
            }  # left by a crash in the first write
        except OSError as error:
            raise SiteError(
                f"{self.folder} cannot be used: {error.strerror}; name a folder that is yours to write, or a new one"
            ) from error
        if sheet is not None and not sheet["finished"]:
            if sheet["plan"] != self.plan.fingerprint:
                raise OtherRunError(
                    f"{self.folder} holds a run that is not finished: {sheet['title']}. Start it again with the same file and "
                    "options, or name another folder."
                )
            self.is_resumed = True
            return
        if sheet is None and others:
            raise self._others_folder()
        for name in SITES:
            # The last run is finished, so its stores are removed; a new run in them would find its orders done.
            shutil.rmtree(self.folder / name.lower(), ignore_errors=True)
        self._write_sheet(is_finished=False)

    def _read_sheet(self) -> dict[str, Any] | None:
        """Return the sheet of the run in the folder, or None."""
        try:
            sheet = json.loads(self._sheet.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self._others_folder() from error
        if not isinstance(sheet, dict) or not {"plan", "title", "finished"} <= sheet.keys():
            raise self._others_folder()
        return sheet

    def _others_folder(self) -> OtherRunError:
        return OtherRunError(f"{self.folder} holds files of somebody else; name a folder that is empty, or a new one.")

    @property
    def _sheet(self) -> Path:
        return self.folder / "run.json"

    @property
    def _new_sheet(self) -> Path:
        return self.folder / "run.json.new"

    def _write_sheet(self, *, is_finished: bool) -> None:
        sheet = {"plan": self.plan.fingerprint, "title": self.plan.title, "finished": is_finished}
        self._new_sheet.write_text(json.dumps(sheet), encoding="utf-8")
        # A rename is atomic, so a crash leaves the old sheet or the new one, and never half of one.
        self._new_sheet.replace(self._sheet)

    # The work

    def _urls(self) -> dict[str, str]:
        return {name: site.url for name, site in self.sites.items()}

    def _begin_orders(self, url: str) -> None:
        """Start all orders, in one transaction; those started before are not started again."""
        with ConnectionFactory(url).create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            client = FlowClient(session)
            for order in self.orders:
                client.start(FLOW.name, order.data(self.plan), instance=order.instance)
            session.commit()

    def _wait_for(self, wanted: int, watch: Watch) -> int:
        """Wait until `wanted` orders have ended; return how many have."""
        while True:
            ended = self._look()
            watch()
            if ended >= wanted:
                return ended
            # After the count: a site that dies when all orders have ended is no failure of the run.
            self._check_sites()
            self._pause.wait(_LOOK_S)

    def _look(self) -> int:
        lines = {work: count for books in self._books.values() for work, count in count_lines(books).items()}
        lines[_ENDED] = sum(self._store.count(status=each) for each in Status if each.is_final)
        for counter in self.counters:
            # The databases have totals, and a counter adds, so the difference is passed.
            counter.add(Happening.DONE, lines.get(counter.name, 0) - counter[Happening.DONE])
        return lines[_ENDED]

    def _check_sites(self) -> None:
        for site in self.sites.values():
            if site.has_died():
                raise SiteError(f"the site {site.name} has ended by itself: {site.log() or 'it says nothing'}")

    def _kill_and_start(self, name: str, ended: int, watch: Watch, tell: Tell) -> None:
        site, began_ms = self.sites[name], self._clock.monotonic_ms()
        # Read before the kill, which clears the process.
        pid = site.pid
        site.kill()
        tell(
            f"{name} was killed (kill -9, process {pid}): {ended:,} of {counted(len(self.orders), 'order')} had ended."
        )
        while self._clock.monotonic_ms() - began_ms < _AWAY_MS:
            self._pause.wait(_LOOK_S)
            self._look()
            watch()
        site.launch()
        site.announced()
        site.tell(self._urls())
        away_ms = self._clock.monotonic_ms() - began_ms
        self.deaths.append(Death(site=name, ended=ended, away_ms=away_ms))
        tell(f"{name} is back after {away_ms / 1000:.1f} s, as process {site.pid}.")

    def _left_over(self, watch: Watch) -> dict[str, int]:
        """Return how many messages remained in which queue, after late ones had time to leave."""
        end_ms = self._clock.monotonic_ms() + _DRAIN_MS
        with self._browsers() as look:
            while True:
                found = look()
                if not any(found.values()) or self._clock.monotonic_ms() >= end_ms:
                    return found
                watch()
                self._pause.wait(_LOOK_S)

    @contextmanager
    def _browsers(self) -> Iterator[Callable[[], dict[str, int]]]:
        connections = {name: ConnectionFactory(site.url).create_connection() for name, site in self.sites.items()}
        sessions = {name: each.create_session(False, Session.AUTO_ACKNOWLEDGE) for name, each in connections.items()}
        queues = [*(work.queue for work in WORKS), EVENTS, f"{EVENTS}.bad"]
        places = [(name, queue) for queue in queues for name in (HERE, THERE)]

        def look() -> dict[str, int]:
            found = {}
            for name, queue in places:
                session = sessions[name]
                with session.create_browser(session.create_queue(queue)) as browser:
                    found[f"{queue} in {name}"] = sum(1 for _ in browser)
            return found

        try:
            for each in connections.values():
                each.start()
            yield look
        finally:
            for each in connections.values():
                each.close()


_ATTEMPTS = 4
_PAUSE_S = 0.5
_LOG_SHOWN = 2_000


class SiteError(Exception):
    """A site could not be started; the text says why."""


class SiteProcess:
    """One site, whose process may be killed and restarted at the same port. For one thread."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder / name.lower()
        self._folder.mkdir(exist_ok=True)
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def books(self) -> str:
        """The file of the companies' database."""
        return str(self._folder / "books.db")

    @property
    def flows(self) -> str:
        """The file of the workflows' store."""
        return str(self._folder / "flows.db")

    @property
    def pid(self) -> int:
        """The id of its process; 0 if there is none."""
        return 0 if self._process is None else self._process.pid

    @property
    def url(self) -> str:
        """The URL of its broker, once it was `announced`."""
        return f"stomp://127.0.0.1:{self._port}"

    def launch(self) -> None:
        """Start the process; `announced` waits until its broker is ready."""
        with (self._folder / "site.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  this very Python
                [sys.executable, "-m", "pyjms.demo.sites.site", self.name, str(self._port)],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends its sites
            )

    def announced(self) -> None:
        """Wait until the broker accepts connections. Raises `SiteError` when it does not come up."""
        for attempt in range(1, _ATTEMPTS + 1):
            assert self._process is not None
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            if line.startswith("listening "):
                # At first any free port; later the same one, which the other site's routes know.
                self._port = int(line.rpartition(":")[2])
                return
            self.kill()
            if attempt < _ATTEMPTS:  # the site of a demo that was just killed may still be running
                Event().wait(_PAUSE_S)
                self.launch()
        raise SiteError(f"the site {self.name} does not start: {self.log() or 'it says nothing'}")

    def tell(self, urls: Mapping[str, str]) -> None:
        """Tell it the URLs of all sites: it starts to work."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(urls) + "\n")
        self._process.stdin.flush()

    def has_died(self) -> bool:
        """Whether its process has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """Kill it (SIGKILL), if it is running."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        # Reaped at once, so that no zombie remains, and the port and the files are free on return.
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def log(self) -> str:
        """Return the end of its log."""
        try:
            return (self._folder / "site.log").read_text(encoding="utf-8", errors="replace")[-_LOG_SHOWN:].strip()
        except FileNotFoundError:
            return ""
