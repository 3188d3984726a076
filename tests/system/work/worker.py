"""The programs that are killed: the companies of a workflow with a desk's server, and a desk that asks.

``worker.py companies URL FOLDER``, ``worker.py desk URL FOLDER REQUESTS`` and ``worker.py till URL REQUESTS MODE``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, text

from pyjms import Connection, ConnectionFactory, JMSException, Message, Session, TextMessage
from pyjms.flows import StepRefused, StepServer
from pyjms.recoverable import PersistentSession, RecoverableRequestor, RecoverableServer, Reply, Unit

STEPS = {"a.take": "take", "a.give": "give back", "b.pay": "pay", "b.refund": "refund", "c.ship": "ship"}


def open_database(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}")

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.execute("PRAGMA busy_timeout=20000")

    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS works (what TEXT)"))
    return engine


def note(unit: Unit, what: str) -> None:
    unit.connection.execute(text("INSERT INTO works VALUES (:what)"), {"what": what})


def step(what: str) -> Callable[[Mapping[str, Any], Unit], Mapping[str, Any]]:
    def work(data: Mapping[str, Any], unit: Unit) -> Mapping[str, Any]:
        note(unit, f"{data['order']} {what}")
        if what == "ship" and data["refused"]:
            raise StepRefused("no van")
        return {}

    return work


def book(request: Message, unit: Unit) -> Message:
    assert isinstance(request, TextMessage)
    note(unit, f"booking {request.text}")
    return unit.session.create_text_message(request.text)


def serve(url: str, folder: Path) -> None:
    factory = ConnectionFactory(url)
    servers: list[RecoverableServer] = [
        StepServer(factory, queue, step(what), database=open_database(folder / f"{queue[0]}.db"))
        for queue, what in STEPS.items()
    ]
    servers.append(RecoverableServer(factory, "bookings", book, database=open_database(folder / "bookings.db")))
    threads = [threading.Thread(target=server.serve) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Paper:
    """A printer whose pages are lines of a file: its state is the length of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def state(self) -> str:
        return str(self._path.stat().st_size if self._path.exists() else 0)

    def print(self, reply: Reply) -> None:
        with self._path.open("a", encoding="ascii") as file:
            file.write(f"{reply.number}\n")
            file.flush()
            os.fsync(file.fileno())


def ask(url: str, folder: Path, requests: int) -> None:
    paper = Paper(folder / "paper")
    log = f"sqlite:///{folder / 'desk.db'}"
    with RecoverableRequestor(ConnectionFactory(url), "desk", "bookings", log=log, device=paper) as desk:
        while True:
            try:
                desk.recover(paper.print)
                while desk.number < requests:
                    with ConnectionFactory(url).create_connection() as connection:
                        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
                        message = session.create_text_message(str(desk.number + 1))
                    desk.request(message, paper.print)
            except JMSException as error:
                sys.stderr.write(f"{error}\n")
                threading.Event().wait(0.2)
            else:
                return


def pay(url: str, requests: int, *, transacted: bool) -> None:
    """Ask without a log: whatever dies, the till goes on from the tags that the queue manager tells it."""
    while True:
        try:
            with ConnectionFactory(url).create_connection() as connection:
                go_on(connection, requests, transacted=transacted)
        except JMSException as error:
            sys.stderr.write(f"{error}\n")
            threading.Event().wait(0.2)
        else:
            return


def go_on(connection: Connection, requests: int, *, transacted: bool) -> None:
    session = connection.create_session(transacted, Session.CLIENT_ACKNOWLEDGE)
    replies, taken = session.create_queue("till.replies"), session.create_producer(session.create_queue("till.taken"))
    bookings, consumer = session.create_producer(session.create_queue("bookings")), session.create_consumer(replies)
    connection.start()
    till = PersistentSession(session, "till")
    asked, answered = int(till.last_request or 0), int(till.last_reply or 0)
    while answered < requests:
        if asked == answered:
            asked += 1
            request = session.create_text_message(f"till {asked}")
            request.jms_reply_to = replies
            till.tag_request(str(asked))
            bookings.send(request)
            if transacted:
                session.commit()
        reply = consumer.receive()
        if not isinstance(reply, TextMessage) or reply.text != f"till {asked}":
            raise JMSException(f"the reply to {asked} did not come, but {reply}")
        answered = asked
        till.tag_reply(str(asked))
        if transacted:
            taken.send(session.create_text_message(str(asked)))
            session.commit()
        else:
            reply.acknowledge()  # not by the session itself, which would not say that the outcome is unknown


def main() -> None:
    """Do what the arguments say."""
    if sys.argv[1] == "companies":
        serve(sys.argv[2], Path(sys.argv[3]))
    elif sys.argv[1] == "till":
        pay(sys.argv[2], int(sys.argv[3]), transacted=sys.argv[4] == "transacted")
    else:
        ask(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
