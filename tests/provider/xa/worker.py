"""Processes that run distributed transactions over a broker and a bank, and kill themselves at the Nth step.

``python -m tests.provider.xa.worker`` reads one JSON object a line, does it in a forked child, and writes how that ended: what it
passed, and its exit status. One interpreter so serves hundreds of deaths.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from pyjms import ConnectionFactory, Session, XAConnectionFactory, XASession
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.stores.sql import SqlJournal
from tests.provider.xa.bank import Bank, open_bank
from tests.provider.xa.coordinator import Coordinator

ORDERS, BILLS = "orders", "bills"
_WAIT_MS = 5_000


class Steps:
    """Counts steps, notes them, and kills the process at one of them: nothing that Python does at its end is done."""

    def __init__(self, notes: Path, last: int) -> None:
        self._notes = notes
        self._last = last
        self._passed = 0

    def __call__(self, step: str) -> None:
        self._passed += 1
        with self._notes.open("a", encoding="utf-8") as notes:
            notes.write(f"{step}\n")
        if self._passed == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch_journal(self) -> None:
        """Count the moments before and after each write of the broker's journal."""
        write, add = SqlJournal.write, SqlJournal.add

        def watched(journal: SqlJournal, changes: Changes, *, force: bool) -> None:
            what = "prepare" if changes.prepared else "outcome" if changes.outcomes else "other"
            self(f"before the journal writes ({what})")
            write(journal, changes, force=force)
            self(f"after the journal wrote ({what})")

        def watched_addition(*arguments: Any) -> None:
            self("before the journal writes (other)")
            add(*arguments)
            self("after the journal wrote (other)")

        SqlJournal.write = watched  # type: ignore[method-assign, assignment]  # mypy takes it for unbound
        SqlJournal.add = watched_addition  # type: ignore[method-assign, assignment]


def fill(url: str, orders: list[str]) -> None:
    """Send the orders."""
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue(ORDERS))
        for order in orders:
            producer.send(session.create_text_message(order))
    stop(url)


def trade(url: str, bank_url: str, log: Path, steps: Steps) -> None:
    """For each order: take it, add it to the ledger, and send a bill, as one transaction; every third is rolled back once."""
    bank = open_bank(bank_url, steps)
    with XAConnectionFactory(url).create_xa_connection() as connection:
        connection.start()
        session = connection.create_xa_session()
        resources = {"bank": bank, "broker": session.xa_resource}
        coordinator = Coordinator(log, steps)
        coordinator.recover(resources)
        wishes = cycle([True, False, True])
        while _has_orders(connection.create_session()):
            coordinator.run(resources, partial(_trade_one, session, bank, steps, wishes))
    stop(url)


def _has_orders(session: Any) -> bool:
    with session.create_browser(session.create_queue(ORDERS)) as browser:
        found = any(True for _ in browser)
    session.close()
    return found


def _trade_one(session: XASession, bank: Bank, steps: Steps, wishes: Iterator[bool]) -> bool:
    consumer = session.create_consumer(session.create_queue(ORDERS))
    message = consumer.receive(_WAIT_MS)
    consumer.close()
    steps("received")
    bank.add(message.text)  # type: ignore[union-attr]  # it is a text message
    producer = session.create_producer(session.create_queue(BILLS))
    producer.send(session.create_text_message(f"bill for {message.text}"))  # type: ignore[union-attr]
    producer.close()
    steps("sent")
    return next(wishes)


def recover(url: str, bank_url: str, log: Path, steps: Steps) -> None:
    """Do nothing but finish what was begun before."""
    with XAConnectionFactory(url).create_xa_connection() as connection:
        resources = {"bank": open_bank(bank_url, steps), "broker": connection.create_xa_session().xa_resource}
        Coordinator(log, steps).recover(resources)
    stop(url)


def finish(url: str, bank_url: str, log: Path, steps: Steps) -> list[dict[str, list[str]]]:
    """Recover and look, then do what is left to do and look again."""
    recover(url, bank_url, log, steps)
    seen = look(url, bank_url)
    trade(url, bank_url, log, steps)
    return [seen, look(url, bank_url)]


def look(url: str, bank_url: str) -> dict[str, list[str]]:
    """Return the ledger, what is in the queues, and what is in doubt."""
    bank = open_bank(bank_url)
    with XAConnectionFactory(url).create_xa_connection() as connection:
        session = connection.create_session()
        queues = {name: _texts(session, name) for name in (ORDERS, BILLS)}
        in_doubt = [
            str(xid.global_transaction_id)
            for resource in (bank, connection.create_xa_session().xa_resource)
            for xid in resource.recover(resource.TMSTARTRSCAN | resource.TMENDRSCAN)
        ]
    stop(url)
    return {"ledger": bank.entries(), **queues, "in doubt": in_doubt}


def _texts(session: Session, name: str) -> list[str]:
    with session.create_browser(session.create_queue(name)) as browser:
        return [message.text for message in browser]  # type: ignore[attr-defined]  # they are text messages


def stop(url: str) -> None:
    """Stop the broker in an orderly way."""
    parsed = ProviderUrl.parse(url)
    find_provider(parsed.scheme).stop_broker(parsed)


def do(task: dict[str, Any]) -> Any:
    """Do a task; runs in a child."""
    url, bank_url = task["url"], task["bank"]
    if task["do"] == "fill":
        return fill(url, task["orders"])
    if task["do"] == "look":
        return look(url, bank_url)
    steps = Steps(Path(task["notes"]), task.get("last", 0))
    steps.watch_journal()
    work = {"trade": trade, "recover": recover, "finish": finish}[task["do"]]
    return work(url, bank_url, Path(task["log"]), steps)


def child(task: dict[str, Any], answer: int) -> None:
    """Do a task, write what it returns, and end."""
    status = 1
    try:
        os.write(answer, json.dumps(do(task)).encode())
        status = 0
    except BaseException as error:
        os.write(answer, json.dumps(f"{type(error).__name__}: {error}").encode())
        raise
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Serve tasks until there are no more."""
    for line in sys.stdin:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            child(json.loads(line), write)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as answer:
            text = answer.read()
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        sys.stdout.write(json.dumps({"status": code, "answer": json.loads(text) if text else None}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
