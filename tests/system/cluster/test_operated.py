"""What an operator of a cluster meets: networks that are cut, a full disk of PostgreSQL, and a copy of the database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pyjms import ConnectionFactory
from tests.needs.table import own_mounts
from tests.provider.postgresql import PostgresqlServer
from tests.system.cluster.operated import NAMES, Flow, Pair, flowing, number_of

ROOT = Path(__file__).parents[3]
DATABASE = "operated"
_MOUNTED = 'mount -t tmpfs -o size=150m,mode=1777 tmpfs "$0" && exec "$@"'
"""Runs a command with a small file system in a folder, which nobody else sees, and which goes with the command."""
pytestmark = [pytest.mark.requires("postgresql"), pytest.mark.xdist_group("operated")]  # they share a cluster


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, postgresql: PostgresqlServer) -> Iterator[Pair]:
    with postgresql.connect() as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}".encode())
    with closing(Pair(tmp_path_factory.mktemp("operated"), postgresql, DATABASE)) as made:
        yield made


@contextmanager
def silent(pair: Pair) -> Iterator[None]:
    """Pass nothing on between a member and PostgreSQL, and end no connection."""
    with pair.members["right"].store.frozen():
        yield


@contextmanager
def refused(pair: Pair) -> Iterator[None]:
    """End the connections between a member and PostgreSQL, and refuse others."""
    store = pair.members["right"].store
    store.refuses = True
    store.cut_all()
    try:
        yield
    finally:
        store.refuses = False


@pytest.mark.parametrize("cut", [silent, refused])
def test_a_member_that_is_cut_off_from_postgresql_says_so_and_another_one_goes_on_until_it_is_back(
    pair: Pair, cut: Callable[[Pair], AbstractContextManager[None]]
) -> None:
    with flowing(pair, word="cut") as flows:
        for each in flows.values():
            each.await_more()
        with cut(pair):
            pair.await_readiness("right", 503)
            trouble = pair.status("right")["trouble"]
            assert trouble.startswith("member right cannot reach its cluster: ")
            pair.await_leaders("left")
            pair.await_log("right", "PYJMS-CLUSTER-6")
            assert pair.readiness("left") == 200
            for leader in NAMES:
                flows["left", leader].await_more()
        pair.await_leaders(*NAMES)
        pair.await_readiness("right", 200)
        for each in flows.values():
            each.await_more()


def test_members_that_are_cut_off_from_each_other_say_so_and_clients_go_on_when_they_are_not(pair: Pair) -> None:
    with flowing(pair, "apart") as flows, ExitStack() as ends:
        for each in flows.values():
            each.await_more()
        for member in pair.members.values():
            ends.callback(setattr, member.links, "refuses", False)
            member.links.refuses = True
            member.links.cut_all()
        for of in NAMES:
            flows[of, of].await_more()
            pair.await_log(of, f"PYJMS-CLUSTER-11 a client of member {of} did not reach shard ")
            assert pair.readiness(of) == 200, "it serves its own shards"
        ends.close()
        for each in flows.values():
            each.await_more()
            assert {code for code, _ in each.errors} <= {"PYJMS-IN-DOUBT"}, "what was on its way; all else has waited"


def test_a_copy_of_a_running_server_has_what_was_confirmed_and_its_members_touch_nothing_of_the_first_cluster(
    pair: Pair, tmp_path: Path
) -> None:
    flows = [Flow(pair.members[name], pair.queue_of(name, "copied"), receives=False) for name in NAMES]
    with ExitStack() as ends:
        for flow in flows:
            ends.callback(flow.end)
            flow.await_more()
        before = [list(flow.confirmed) for flow in flows]
        copied = PostgresqlServer(pair.server)
        ends.callback(copied.remove)
        # At once: the rows of the first cluster's members look alive for one lease.
        other = ends.enter_context(closing(Pair(tmp_path, copied, DATABASE)))
        for flow in flows:
            flow.await_more()  # the first cluster goes on
            flow.end()
        addresses = {each["address"] for each in other.status("left")["members"]}
        assert addresses == {f"127.0.0.1:{each.links.port}" for each in other.members.values()}
        for flow, sent in zip(flows, before, strict=True):
            in_copy, in_first = drained(other, flow.queue), drained(pair, flow.queue)
            assert in_copy == flow.confirmed[: len(in_copy)], "in order, and without a gap"
            assert len(in_copy) >= len(sent), "nothing that was confirmed before the copy was begun is lost"
            assert in_first == flow.confirmed


def drained(pair: Pair, queue: str) -> list[int]:
    """Receive all messages of a queue, from either member; return their numbers."""
    found = []
    with ConnectionFactory(f"stomp://127.0.0.1:{pair.members['right'].ports['stomp']}").create_context() as context:
        consumer = context.create_consumer(context.create_queue(queue))
        while (message := consumer.receive(2_000)) is not None:
            found.append(number_of(message))
    return found


@pytest.mark.requires("unshare")
@pytest.mark.parametrize("full", ["tables", "log"])
def test_a_full_disk_of_postgresql_refuses_messages_by_name_and_loses_none(tmp_path: Path, full: str) -> None:
    namespace = own_mounts()
    assert namespace is not None
    # The server's own user must reach it, which pytest's folders do not allow.
    with TemporaryDirectory(prefix="pyjms-small-") as small:
        Path(small).chmod(0o755)
        # The server refuses to run as root, also as one within the namespace alone.
        user = [] if os.geteuid() == 0 else ["unshare", "--user", f"--map-user={os.geteuid()}"]
        script = [sys.executable, "-m", "tests.system.cluster.full_disk", full, small, str(tmp_path)]
        done = subprocess.run(
            [*namespace, "sh", "-c", _MOUNTED, small, *user, *script],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stdout.endswith("done\n"), f"{done.stdout}\n{done.stderr}"
