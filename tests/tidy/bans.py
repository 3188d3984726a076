"""What may not be written, with what to write instead, and the few places that may write it, with the reason.

Each ban is judged by `test_bans.py`, both on the project and on a line that breaks it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from fnmatch import translate
from typing import TYPE_CHECKING

from tests.tidy.names import Names
from tests.tidy.source import EVERYTHING, LIBRARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Ban:
    """Names that may not be used below `folders`."""

    title: str
    names: tuple[str, ...]
    instead: str
    folders: tuple[str, ...] = LIBRARY
    # File -> the reason why it may.
    allowed: Mapping[str, str] = field(default_factory=dict)
    # A line that breaks the ban: a ban that finds nothing looks perfect.
    example: str


BANS = (
    Ban(
        title="print",
        names=("print",),
        instead="log, or return the text: only commands speak to the user",
        example="print('hello')",
    ),
    Ban(
        title="eval and exec",
        names=("eval", "exec"),
        instead="a parser or a table",
        folders=EVERYTHING,
        example="eval('1 + 1')",
    ),
    Ban(
        title="unpickling",
        names=("pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads", "shelve.open"),
        instead="pyjms.messages.bodies, which decodes trusted classes only",
        allowed={"pyjms/messages/bodies.py": "the one place that decodes objects, by the rules of trust"},
        example="import pickle as p\np.loads(b'')",
    ),
    Ban(
        title="texts on a terminal as they came",
        names=("rich.markup.escape",),
        instead="pyjms.spi.terminal.escaped, which also spells out what steers a terminal",
        allowed={"pyjms/spi/terminal.py": "the place that does"},
        example="from rich.markup import escape\nescape('[red]')",
    ),
    Ban(
        title="sleeping",
        names=("time.sleep", "asyncio.sleep"),
        instead="a wait that close() ends, or in tests an event, a latch or the virtual clock",
        folders=EVERYTHING,
        example="from time import sleep\nsleep(1)",
    ),
    Ban(
        title="the system's clock",
        names=(
            "time.time",
            "time.time_ns",
            "time.monotonic",
            "time.monotonic_ns",
            "datetime.*.now",
            "datetime.*.utcnow",
            "datetime.*.today",
        ),
        instead="the injected clock (pyjms.spi.clock)",
        allowed={
            "pyjms/spi/clock.py": "the clock that is injected when no other is named",
            "pyjms/history/stamps.py": "events need nanoseconds; a clock that was injected is obeyed",
        },
        example="from datetime import datetime\ndatetime.now()",
    ),
    Ban(
        title="the program's random numbers",
        names=("random.[a-z]*",),
        instead="a random.Random of its own: whoever seeds a simulation, or a test, is to get the same numbers again",
        example="import random\nrandom.random()",
    ),
    Ban(
        title="starting threads",
        names=("threading.Thread", "threading.Timer", "_thread.start_new_thread", "concurrent.futures.*Executor"),
        instead="one of the places that own threads: docs/design/threads.md lists them",
        allowed={
            "pyjms/demo/process.py": "the demo is an application, and its servers are threads",
            "pyjms/demo/sites/site.py": "the servers and the engine of a site of the demo, beside its broker",
            "pyjms/demo/members.py": "the end of a member of the demo with its input, beside its broker",
            "pyjms/commands/signals.py": "the thread that ends a command after Ctrl-C or SIGTERM",
            "pyjms/forwarding/runner.py": "the thread of a route",
            "pyjms/history/recording.py": "the thread that writes what was recorded",
            "pyjms/porting/java/threads.py": "java.lang.Thread, for programs that start threads",
            "pyjms/spi/interrupts.py": "who closes what does not answer waits as long as that",
            "pyjms/runtime/waiting.py": "the threads of a session's listeners, and of calls that tasks await",
            "pyjms/spark/planning.py": "the thread that fetches a task's next page",
            "provider/pyjms_provider/clients/cluster/shard_connection.py": "the thread that connects to a shard's next leader",
            "provider/pyjms_provider/cluster/leading.py": "opening a shard's store, or stopping its broker, takes long, and nobody is to wait",
            "provider/pyjms_provider/cluster/member.py": "the threads of a member: its turns, and the branches that it settles",
            "provider/pyjms_provider/cluster/membership.py": "who waits for what the database announces",
            "provider/pyjms_provider/clients/network/failover.py": "who makes a lost connection anew waits between attempts",
            "provider/pyjms_provider/clients/network/io_thread.py": "the I/O thread of a connection, which owns its socket",
            "provider/pyjms_provider/receivers.py": "the thread that calls the receivers of a queue, so that no sender waits for them",
            "provider/pyjms_provider/management/jobs.py": "an operation that takes long runs by itself",
            "provider/pyjms_provider/broker.py": "who finds out that the store is lost cannot wait for the broker to stop",
            "provider/pyjms_provider/housekeeping.py": "the one timer thread of the broker",
            "provider/pyjms_provider/model/clustered.py": "the thread that sees which shards a member leads",
            "provider/pyjms_provider/model/configuration_thread.py": "one thread that makes changes to managed objects",
            "provider/pyjms_provider/model/member_requests.py": "a request of another member, which may take long",
            "provider/pyjms_provider/stores/group_commit.py": "where many threads wait for a commit, one that has nothing else to do",
            "provider/pyjms_provider/stores/sql/sqlite_files.py": "carrying the log of SQLite over takes long, and nobody is to wait",
            "provider/pyjms_provider/stores/sql/database.py": "who looks whether an idle broker still holds its store",
            "provider/pyjms_provider/stories/log.py": "the thread that writes stories, so that nobody waits for that",
            "provider/pyjms_provider/transport/service.py": "the one thread of the network's event loop",
            "provider/pyjms_provider/transport/scheduler.py": "the thread that waits by the injected clock for the network",
            "provider/pyjms_provider/transport/workers.py": "the threads for what may wait, so that the network does not",
            "provider/pyjms_provider/stores/testing/suite.py": "the contract of stores is tested with several threads",
            "tck/pyjms_tck/runner/messages.py": "a worker whose controller is gone ends, even if its test hangs",
            "tck/pyjms_tck/background.py": "a conformance test makes calls that wait, beside its own",
            "tck/pyjms_tck/spi/environment.py": "the contract tests call a provider from several threads",
        },
        example="import threading\nthreading.Thread(target=work).start()",
    ),
    Ban(
        title="tests that are not run",
        names=("pytest.skip", "pytest.xfail", "pytest.importorskip", "pytest.mark.skip*", "pytest.mark.xfail"),
        instead="a test that passes, or none",
        folders=("tests",),
        example="import pytest\n@pytest.mark.skipif(True, reason='later')\ndef test(): pass",
    ),
)

# A handler that catches everything and does not raise again belongs to the top of a thread, which logs and closes, or
# around the call of an application's code, whose errors must not become ours. "file::function" -> the reason.
BROAD_HANDLERS = {
    "tck/pyjms_tck/background.py::_run": "the top of a thread of a conformance test, which gets the error",
    "tck/pyjms_tck/checks.py::attempt": "what a call raised is what a conformance test has seen",
    "tck/pyjms_tck/judge_plugin.py::_short": "the repr of any object, which may fail in any way",
    "pyjms/aio/calls.py::run": "the top of a session's thread: what a call raised is its task's",
    "pyjms/aio/calls.py::_do_all": "the same: no error ends it, as the calls that follow would wait for ever",
    "pyjms/aio/sessions.py::look": "the same, of a receive that waits",
    "pyjms/aio/context.py::run": "the same, of a send: its task raises what the send raised",
    "pyjms/forwarding/runner.py::_run": "the top of the thread of a route, which tells that it has failed",
    "pyjms/history/recording.py::_write": "around all writing: who is recorded must not suffer, and the thread goes on",
    "pyjms/history/recording.py::_write_rows": "around all writing: who is recorded must not suffer",
    "pyjms/porting/java/threads.py::done": "what work of an executor raises is what its future raises, whatever it is",
    "pyjms/porting/java/threads.py::_work": "a thread of an executor: what one piece of work raised is told, and the next must not wait",
    "pyjms/recoverable/server.py::_serve_one": "a server's work: what it raised rolls the request back, and the server goes on",
    "pyjms/spark/routed.py::_made_of": "what a transformer of an application made, which may be anything",
    "pyjms/spi/words.py::reason_of": "the text of any exception, which may fail in any way",
    "pyjms/runtime/completions.py::_call": "a completion listener: the outcome of the next send must not wait",
    "pyjms/runtime/dispatch.py::_process": "a session's thread, or an application server's: the next message must not wait",
    "pyjms/runtime/dispatch.py::_read": "the same: what cannot be read is counted, and set aside in the end",
    "pyjms/runtime/dispatch.py::_call": "a message listener: what it raised decides about redelivery",
    "pyjms/runtime/waiting.py::_run": "the top of the threads that run listeners and callbacks",
    "pyjms/runtime/waiting.py::_tell": "the same: who cannot be told of an error must not end the thread",
    "provider/pyjms_provider/clients/network/failover.py::on_ended": "who cannot be told of a loss must not keep it from being healed",
    "provider/pyjms_provider/clients/network/failover.py::_heal": "the top of a thread, which says that it could not heal",
    "provider/pyjms_provider/clients/network/polling.py::_read_until": "what a reader finds wrong is raised by the I/O thread",
    "provider/pyjms_provider/clients/network/io_thread.py::_run": "the top of the I/O thread: the connection ends by it",
    "provider/pyjms_provider/clients/stomp/physical_connection.py::_take": "a callback's fault must not end the connection of others",
    "provider/pyjms_provider/cluster/leading.py::_open": "the top of a thread: the shard goes back to the others",
    "provider/pyjms_provider/cluster/leading.py::_end": "the same",
    "provider/pyjms_provider/cluster/member.py::_run": "the top of a thread: without heartbeats the member would be taken for dead",
    "provider/pyjms_provider/cluster/member.py::_settle": "the top of a thread: branches would stay prepared, and keep messages",
    "provider/pyjms_provider/core/queue/pusher.py::_ask": "a receiver that raises is broken (JBM §5.2)",
    "provider/pyjms_provider/core/queue/queue_rules.py::rank": "a queue type of a package: its fault must not be the sender's",
    "provider/pyjms_provider/core/journal/in_doubt_writes.py::_try_to_end": "one doubt's fault must not keep from all others what they hold",
    "provider/pyjms_provider/housekeeping.py::_visit_due": "the top of a thread: one channel's fault stops no other",
    "provider/pyjms_provider/receivers.py::_run": "the top of the thread that calls receivers",
    "provider/pyjms_provider/receivers.py::_do_tasks": "what a call raises is raised by the thread that waits for it",
    "provider/pyjms_provider/receivers.py::_call": "what a receiver raises is counted, and decides about its message",
    "provider/pyjms_provider/serving/management_queues.py::_done": "a fault of one request is told its sender alone",
    "provider/pyjms_provider/serving/management_queues.py::_serve": "a fault of one request must not keep others from answers",
    "provider/pyjms_provider/management/jobs.py::_run": "the top of a job's thread, which tells that it failed",
    "provider/pyjms_provider/transport/connection.py::buffer_updated": "one connection's fault ends that connection alone",
    "provider/pyjms_provider/transport/connection.py::_try": "one connection's fault ends that connection alone",
    "provider/pyjms_provider/protocols/amqp/server/work.py::do_all": "all that is left has to end, whichever fails; then the first error is raised",
    "provider/pyjms_provider/protocols/amqp/server/consumers.py::push": "a fault in writing to one connection must not be the sender's",
    "provider/pyjms_provider/protocols/stomp/server/native_consumers.py::write": "a fault in writing to one connection must not be the sender's",
    "provider/pyjms_provider/stores/group_commit.py::_lead_by_thread": "the top of a thread: who waited is told to be in doubt",
    "provider/pyjms_provider/transport/workers.py::run": "the top of a thread: the engine is told what its job raised",
    "provider/pyjms_provider/model/configuration_thread.py::run": "a call's error is its caller's, on another thread",
    "provider/pyjms_provider/model/member_requests.py::_serve": "the top of a request's thread, which answers that it failed",
    "provider/pyjms_provider/model/configured.py::tell": "a listener's error must not keep others from hearing",
    "pyjms/runtime/server_sessions.py::_load_into_pool": "an application server: its messages go back when it fails",
}


def names_used(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and full name of each name that is read."""
    known = Names(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            dotted = known.dotted(node)
            if dotted:
                yield node.lineno, dotted


def among(used: Iterable[tuple[int, str]], names: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield those of `used` whose name is one of `names`, which may hold wildcards."""
    fits = re.compile("|".join(map(translate, names))).match
    return ((line, name) for line, name in used if fits(name))


def uses(tree: ast.Module, names: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield line and name of each use of one of `names`, which may hold wildcards."""
    return among(names_used(tree), names)


def _is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = {"Exception", "BaseException"}
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in broad) for kind in caught)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and (last.exc is None or last.cause is not None)


def broad_handlers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and innermost function of each ``except`` that catches everything and goes on."""
    yield from _broad_handlers(tree, "")


def _broad_handlers(node: ast.AST, function: str) -> Iterator[tuple[int, str]]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        function = node.name
    if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _raises_again(node):
        yield node.lineno, function
    for child in ast.iter_child_nodes(node):
        yield from _broad_handlers(child, function)


def bare_handlers(tree: ast.Module) -> Iterator[int]:
    """Yield the line of each ``except:``."""
    yield from (n.lineno for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler) and n.type is None)
