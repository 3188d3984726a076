"""The workflow, the companies that do its steps, and their records: one line for each record, in the company's own
database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine, create_engine, event, text

from pyjms.demo.books import Entry
from pyjms.flows import StepRefused, read_flow
from pyjms.recoverable import Unit

HERE: Final = "Lisbon"
THERE: Final = "Oslo"
SITES: Final = (HERE, THERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One kind of work: a step, or its compensation."""

    name: str
    company: str
    site: str
    done_for_complete: bool
    """Whether deliverable orders pass it."""
    done_for_incomplete: bool
    """Whether undeliverable orders pass it."""

    @property
    def queue(self) -> str:
        """The queue of requests for it."""
        return f"{self.company}.{self.name}"


WORKS: Final = (
    Work(name="order", company="shop", site=HERE, done_for_complete=True, done_for_incomplete=True),
    Work(name="reserve", company="supplier", site=THERE, done_for_complete=True, done_for_incomplete=True),
    Work(name="invoice", company="shop", site=HERE, done_for_complete=True, done_for_incomplete=True),
    Work(name="deliver", company="carrier", site=THERE, done_for_complete=True, done_for_incomplete=False),
    Work(name="credit", company="shop", site=HERE, done_for_complete=False, done_for_incomplete=True),
    Work(name="release", company="supplier", site=THERE, done_for_complete=False, done_for_incomplete=True),
    Work(name="cancel", company="shop", site=HERE, done_for_complete=False, done_for_incomplete=True),
)
"""In the order in which a compensated order passes them."""
_QUEUES: Final = {work.name: work.queue for work in WORKS}
_PATIENCE: Final = {"timeout_s": 60.0, "retries": 10, "on_timeout": "park"}
"""A killed site restarts, so no step is given up meanwhile."""
FLOW: Final = read_flow(
    {
        "name": "supply-chain",
        "title": "An order of three companies at two sites",
        "initial_state": "asked for",
        "step": [
            {
                "name": "order",
                "queue": _QUEUES["order"],
                "compensation": _QUEUES["cancel"],
                "state": "ordered",
                **_PATIENCE,
            },
            {
                "name": "reserve",
                "queue": _QUEUES["reserve"],
                "compensation": _QUEUES["release"],
                "state": "reserved",
                **_PATIENCE,
            },
            {
                "name": "invoice",
                "queue": _QUEUES["invoice"],
                "compensation": _QUEUES["credit"],
                "state": "invoiced",
                **_PATIENCE,
            },
            {"name": "deliver", "queue": _QUEUES["deliver"], "state": "delivered", **_PATIENCE},
        ],
    }
)


def work_of(name: str) -> Callable[[Mapping[str, Any], Unit], None]:
    """Return the company's work: a function of the order's data and its unit."""

    def work(data: Mapping[str, Any], unit: Unit) -> None:
        # The last step refuses, so that an incomplete order has three steps to be compensated.
        if name == "deliver" and data["missing"]:
            raise StepRefused(f"these records lack a value: {', '.join(map(str, data['missing']))}")
        number = data["order"]
        lines = [{"work": name, "number": number, "id": id_, "amount": amount} for id_, amount in data["records"]]
        # In the transaction of the unit, which also stores the reply: the lines are written exactly once, however often
        # the step is requested.
        unit.connection.execute(text("INSERT INTO lines VALUES (:work, :number, :id, :amount)"), lines)

    return work


def open_books(file: str) -> Engine:
    """Open the database of a site's companies; create it if it does not exist."""
    engine = create_engine(f"sqlite:///{file}")

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        # The demo reads while the site writes, in another process: SQLite allows both at once with a write-ahead log.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=20000"):
            connection.execute(f"PRAGMA {pragma}")

    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS lines (work, order_number, record_id, amount)"))
    return engine


def count_lines(engine: Engine) -> dict[str, int]:
    """Return the number of lines for each kind of work."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT work, count(*) FROM lines GROUP BY work")).all()
    return dict(rows)


def read_lines(engine: Engine) -> dict[str, list[Entry]]:
    """Return all lines, by kind of work."""
    found: dict[str, list[Entry]] = {}
    with engine.connect() as connection:
        for work, number, record_id, amount in connection.execute(text("SELECT * FROM lines")):
            found.setdefault(work, []).append(Entry(record_id, amount, str(number)))
    return found
