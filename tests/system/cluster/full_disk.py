"""A process whose PostgreSQL has a small disk, which is filled while clients of two members send; run by `test_operated.py`.

Arguments: what has no room; the folder of the small disk; a folder for files. Prints ``done`` when all was as it should be.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import psycopg

from tests.provider.postgresql import PostgresqlServer
from tests.system.cluster.operated import NAMES, Flow, Pair, wait_until

_FULL: Final = "is full; nothing was written. Make room, and try again"
_MESSAGE_BYTES: Final = 20_000


class SmallDisk:
    """The disk of a server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Take all that is free."""
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 65_536)
            except OSError:
                pass

    def free(self) -> None:
        self._ballast.unlink()


def tables(pair: Pair, disk: SmallDisk, flows: list[Flow]) -> None:
    """The tables cannot grow: each message is refused, what is there can be received, and all goes on when there is room."""
    drain = Flow(pair.members["left"], pair.queue_of("right", "drained"), size=_MESSAGE_BYTES)
    drain.await_more()  # its first delivery is noted in a table that must have a page for it
    disk.fill()
    for flow in flows:
        refused = sum(flow.errors.values())
        wait_until(lambda flow=flow, refused=refused: sum(flow.errors.values()) > refused + 5, flow.told)  # type: ignore[misc]
    for name in NAMES:
        pair.await_log(name, "PYJMS-STORE-7")
        assert pair.readiness(name) == 200, "consumers go on"
    wait_until(drain.has_all, drain.told)
    disk.free()
    for flow in (*flows, drain):
        flow.await_more()
        assert all(code == "PYJMS-STORE" and _FULL in text for code, text in flow.errors), flow.told()
    drain.end()
    drain.judge()
    for name in NAMES:
        assert "PYJMS-CLUSTER-6" not in pair.members[name].logs(), "it leads its shards all the time"
        pair.await_log(name, "has room for messages again")


def log(pair: Pair, disk: SmallDisk, flows: list[Flow]) -> None:
    """The server's log cannot grow, so the server ends: members serve nothing and say so, until an operator makes room and starts it."""
    disk.fill()
    try:
        with pair.server.connect() as connection:
            while True:
                connection.execute("SELECT pg_logical_emit_message(true, 'tests', ''), pg_switch_wal()")
    except psycopg.OperationalError:
        pass  # PANIC
    for name in NAMES:
        pair.await_readiness(name, 503)
        pair.await_log(name, "PYJMS-CLUSTER-6")
        assert "cannot reach its cluster: " in pair.status(name)["trouble"]
    wait_until(lambda: not (pair.server.directory / "data" / "postmaster.pid").exists(), pair.ends_of_logs)
    disk.free()
    pair.server.start()
    pair.await_leaders(*NAMES)
    for flow in flows:
        flow.await_more()


def main(kind: str, small: str, place: str) -> None:
    folder = Path(place)
    tempfile.tempdir = small
    with ExitStack() as ends:
        server = PostgresqlServer()
        ends.callback(server.remove)
        pair = ends.enter_context(closing(Pair(folder, server, "postgres")))
        flows = [
            Flow(member, pair.queue_of(leader, f"full-{of}"), size=_MESSAGE_BYTES, receives=False)
            for of, member in pair.members.items()
            for leader in NAMES
        ]
        for flow in flows:
            ends.callback(flow.stop)
            flow.await_more()
        {"tables": tables, "log": log}[kind](pair, SmallDisk(Path(small)), flows)
        for flow in flows:
            flow.end()
            flow.receive_rest()
            flow.judge()
    print("done")  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
