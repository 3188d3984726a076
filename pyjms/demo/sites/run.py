"""One run: start the sites, begin the orders, kill a site on the way, wait until all orders have ended, and judge.

A run is kept in a folder: the sites' stores and databases, and a sheet that says over which records it is. Whoever is killed,
also this process, it goes on when it is started again: an order that was begun is not begun twice, as its instance's id is the same.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, TypeAlias

from pyjms import ConnectionFactory, Session
from pyjms.demo.books import OtherRunError
from pyjms.demo.plan import Plan
from pyjms.demo.sites.chain import FLOW, HERE, SITES, THERE, WORKS, count_lines, open_books, read_lines
from pyjms.demo.sites.judging import Outcome, judge_orders, make_orders
from pyjms.demo.sites.processes import SiteError, SiteProcess
from pyjms.demo.tally import Happening, Tally
from pyjms.flows import FlowClient, Status
from pyjms.flows.engine import EVENTS
from pyjms.flows.store import open_store
from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.words import counted

Watch: TypeAlias = Callable[[], None]
Tell: TypeAlias = Callable[[str], None]

_LOOK_S = 0.2
"""How often it is looked how far the orders are."""
_AWAY_MS = 1_500
"""How long a site stays dead before it is started again."""
_DRAIN_MS = 15_000
"""How long answers that nobody needs any more may take to leave the queues when all orders have ended."""
_ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A site was killed, and came back."""

    site: str
    ended: int
    """How many orders had ended before."""
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
        self.tallies = (
            *(
                Tally(work.name, self._records(complete=work.done_for_complete, incomplete=work.done_for_incomplete))
                for work in WORKS
            ),
            Tally(_ENDED, len(self.orders)),
        )

    def _records(self, *, complete: bool, incomplete: bool) -> int:
        return sum(len(each.records) for each in self.orders if (incomplete if each.missing else complete))

    def reach(self) -> None:
        """Start the sites. Raises `SiteError`; `OtherRunError` when the folder holds an unfinished run over other records."""
        self._open_sheet()
        self.sites = {name: SiteProcess(name, self.folder) for name in SITES}
        here = self.sites[HERE]
        # Made before the sites look, as several at once would make them twice.
        self._store = open_store(f"sqlite:///{here.flows}")
        self._store.deploy(FLOW)
        self._books = {name: open_books(site.books) for name, site in self.sites.items()}
        for site in self.sites.values():
            site.launch()
        for site in self.sites.values():
            site.announced()
        for site in self.sites.values():
            site.tell(self._urls())
        self._begin_orders(here.url)

    def run(self, watch: Watch = lambda: None, tell: Tell = lambda _: None) -> Outcome:
        """Return the outcome when all orders have ended. Raises `SiteError`.

        watch: called several times a second. tell: called with a line when a site was killed, or is back.
        """
        for number in range(self._kills):
            mark = len(self.orders) * (number + 1) // (self._kills + 2)
            ended = self._wait_for(mark, watch)
            if ended < len(self.orders):
                self._kill_and_start(SITES[(number + 1) % len(SITES)], ended, watch, tell)
        self._wait_for(len(self.orders), watch)
        left_over = self._left_over(watch)
        instances = self._store.instances(flow=FLOW.name, limit=len(self.orders))
        written = {work: lines for books in self._books.values() for work, lines in read_lines(books).items()}
        statuses: dict[str, Status] = {each.id: each.status for each in instances}
        return judge_orders(self.plan, self.orders, statuses, written, left_over)

    def finish(self) -> None:
        """Have the folder forget a run whose outcome was told."""
        self._write_sheet(is_finished=True)

    def close(self) -> None:
        """End all processes that were started."""
        for site in self.sites.values():
            site.kill()
        if self.sites:
            self._store.close()
            for books in self._books.values():
                books.dispose()

    # The sheet

    def _open_sheet(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            sheet = self._read_sheet()
            others = {each.name for each in self.folder.iterdir()} - {
                self._new_sheet.name
            }  # left by a death in the first write
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
            shutil.rmtree(self.folder / name.lower(), ignore_errors=True)
        self._write_sheet(is_finished=False)

    def _read_sheet(self) -> dict[str, Any] | None:
        """Return what is written of a run in the folder, None: there is none."""
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
        self._new_sheet.replace(self._sheet)

    # The work

    def _urls(self) -> dict[str, str]:
        return {name: site.url for name, site in self.sites.items()}

    def _begin_orders(self, url: str) -> None:
        """Ask for all orders, in one transaction; those that were begun before are not begun again."""
        with ConnectionFactory(url).create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            client = FlowClient(session)
            for order in self.orders:
                client.start(FLOW.name, order.data(self.plan), instance=order.instance)
            session.commit()

    def _wait_for(self, wanted: int, watch: Watch) -> int:
        """Wait until so many orders have ended; return how many have."""
        while True:
            ended = self._look()
            watch()
            if ended >= wanted:
                return ended
            self._check_sites()
            self._pause.wait(_LOOK_S)

    def _look(self) -> int:
        lines = {work: count for books in self._books.values() for work, count in count_lines(books).items()}
        lines[_ENDED] = sum(self._store.count(status=each) for each in Status if each.is_final)
        for tally in self.tallies:
            tally.add(Happening.DONE, lines.get(tally.name, 0) - tally[Happening.DONE])
        return lines[_ENDED]

    def _check_sites(self) -> None:
        for site in self.sites.values():
            if site.has_died():
                raise SiteError(f"the site {site.name} has ended by itself: {site.log() or 'it says nothing'}")

    def _kill_and_start(self, name: str, ended: int, watch: Watch, tell: Tell) -> None:
        site, began_ms = self.sites[name], self._clock.monotonic_ms()
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
        """Return how many messages stayed in which queue, when those that are late had time to leave."""
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
