"""``pyjms broker``: run the bundled broker, with its log and the signals that end it."""

from __future__ import annotations

import gc
import json
import logging
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from pyjms.spi.clock import SystemClock
from pyjms.spi.interrupts import ENDING, signals_as_bytes
from pyjms.spi.terminal import note, printable
from pyjms_provider.commands import users as user_commands
from pyjms_provider.commands.checked_file import DEFAULT_FILE, check, context_of
from pyjms_provider.commands.cluster import adopt, show_cluster
from pyjms_provider.commands.declared_tree import show_tree
from pyjms_provider.commands.initial import init, read_listen_url
from pyjms_provider.commands.salvage import salvage
from pyjms_provider.commands.telling import errors_told, stop

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.serving.served_broker import ServedBroker


@contextmanager
def stopped_early() -> Iterator[None]:
    """Have SIGTERM and SIGHUP interrupt the block like Ctrl-C, and end the process with 0: it may wait for a store that another broker holds.

    Called on the main thread. `ending_signals` within it replaces its handlers for good.
    """
    # Ctrl-C has Python's own handler already, and `errors_told` its exit code.
    before = {number: signal.signal(number, _stop) for number in _ending() if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is _stop:
                signal.signal(number, handler)


def _stop(*_: object) -> NoReturn:
    raise SystemExit(0)


def _ending() -> tuple[int, ...]:
    """Return the signals that end a broker: those of any command, and SIGHUP, sent when its terminal is closed, unless it is ignored, as with nohup."""
    hangup: int | None = getattr(signal, "SIGHUP", None)  # which Windows does not have
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return ENDING
    return (*ENDING, hangup)


@contextmanager
def ending_signals() -> Iterator[Callable[[], int]]:
    """Give a function that waits for SIGTERM, SIGHUP or Ctrl-C, and returns the number; afterwards they have no effect. Called on the main thread.

    No former handler is restored: the broker is closed then, and a repeated signal from a supervisor or a user
    must neither interrupt the close nor change the exit code.
    """
    reader, writer = socket.socketpair()
    numbers = _ending()
    with reader, writer, signals_as_bytes(numbers, writer, put_back=False):

        def wait() -> int:
            while (number := reader.recv(1)[0]) not in numbers:
                pass
            return number

        yield wait


def await_free(path: Path) -> None:
    """Wait until no broker holds the configuration file, and log the wait. Raises `StoreError`."""
    from pyjms_provider.stores.file_lock import FileLock, acquire, describe_holder

    lock = FileLock(f"{path.absolute()}.lock", describe_holder("that stands by"))
    acquire(lock.acquire, SystemClock())  # in the main thread, where a signal of the system ends the wait
    lock.release()


class LineFormatter(logging.Formatter):
    """Formats each record as one line, and escapes line breaks in it: names chosen by clients could look like lines of their own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the record without its traceback, in one line."""
        return printable(super().formatMessage(record)).replace("\n", "\\n")

    def formatException(
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """Return a traceback with indented lines."""
        return "    " + printable(super().formatException(ei)).replace("\n", "\n    ")


_COLLECT_AFTER: Final = 10_000
"""A collection runs after so many more allocations than deallocations of objects; Python's own figure is 700."""


class LogFormat(Enum):
    """The format of the log."""

    TEXT = "text"
    JSON = "json"


_Configuration = Annotated[
    Path | None,
    typer.Argument(
        help="The configuration, as `pyjms broker init` writes it. Without one, and without --listen: broker.toml.",
        metavar="FILE",
        show_default=False,
    ),
]
_Listen = Annotated[
    list[str] | None,
    typer.Option(
        help="Where to listen; may be given several times. stomp://127.0.0.1:61613; amqp://127.0.0.1:5672; "
        "stomps://…?certificate=FILE&key=FILE; stomp+ws://…, also for amqp; http://127.0.0.1:8161 for operators. Port 0 picks a free one.",
        metavar="URL",
        show_default=False,
    ),
]
_Store = Annotated[
    str | None,
    typer.Option(
        help="Keep messages in this store: sqlite:///shop.db, postgresql+psycopg://USER@HOST/DB, or one that is installed.",
        metavar="URL",
    ),
]
_Users = Annotated[
    Path | None, typer.Option(help="Let in the users of this file (see `pyjms broker user`).", metavar="FILE")
]
_Anonymous = Annotated[
    bool,
    typer.Option(
        "--anonymous", help="Let in everybody on this machine, without a password; logins are accepted and not checked."
    ),
]
_AnonymousRemote = Annotated[
    bool,
    typer.Option(
        "--allow-anonymous-remote-clients",
        help="With --anonymous, let in everybody on other machines, too, where a listener is reached from there.",
    ),
]
_Access = Annotated[
    Path | None,
    typer.Option(help="A file of rules that say who may do what. Without one, users may do anything.", metavar="FILE"),
]
_Trace = Annotated[
    bool,
    typer.Option(
        "--trace",
        help="Log every byte, and each step of a message to its consumer, for support: passwords are among them.",
    ),
]
_Audit = Annotated[
    Path | None,
    typer.Option(
        help="Write who changed what to this file, too, as lines of JSON; it is its owner's alone.", metavar="FILE"
    ),
]
_StandBy = Annotated[
    bool,
    typer.Option(
        "--stand-by",
        help="While another broker holds the store, or the configuration, wait for its end and take over.",
    ),
]
_Cluster = Annotated[
    str | None,
    typer.Option(
        help="Serve the virtual host together with the other members of this cluster; needs --store in PostgreSQL.",
        metavar="NAME",
        show_default=False,
    ),
]
_Member = Annotated[
    str | None,
    typer.Option(help="With --cluster, the name of this member; else --name.", metavar="NAME", show_default=False),
]
_Link = Annotated[
    str | None,
    typer.Option(
        help="With --cluster, where connections of other members are accepted; else a free port of this machine alone.",
        metavar="HOST:PORT",
        show_default=False,
    ),
]
_LogFormat = Annotated[LogFormat, typer.Option(help="The log, on standard error: text for people, or JSON lines.")]


def commands() -> typer.Typer:
    """Return the commands below ``pyjms broker``."""
    app = typer.Typer(
        no_args_is_help=True, help="Run the bundled broker, and look after its users, configuration and store."
    )
    for command in (init, run, check):
        app.command()(command)
    app.add_typer(user_commands.commands(), name="user")
    app.command("tree")(show_tree)
    app.command("cluster")(show_cluster)
    app.command()(adopt)
    app.command()(salvage)
    return app


def run(
    configuration: _Configuration = None,
    listen: _Listen = None,
    store: _Store = None,
    users: _Users = None,
    anonymous: _Anonymous = False,
    allow_anonymous_remote_clients: _AnonymousRemote = False,
    access: _Access = None,
    name: Annotated[str, typer.Option(help="The broker's name, and that of its virtual host.")] = "broker",
    cluster: _Cluster = None,
    member: _Member = None,
    link: _Link = None,
    trace: _Trace = False,
    stand_by: _StandBy = False,
    audit: _Audit = None,
    log_format: _LogFormat = LogFormat.TEXT,
) -> None:
    """Serve clients until SIGTERM or Ctrl-C, or until its terminal is closed.

    Each listener is announced as ``listening URL`` on standard output once it accepts connections.
    """
    _begin_log(log_format)
    # From here on a signal ends the start in order, with code 0: it may wait long for a store.
    with errors_told(), stopped_early():
        if listen:
            _check_users(users, anonymous)
            if not allow_anonymous_remote_clients:
                _check_listeners(listen, anonymous)
            elif not anonymous:
                stop("--allow-anonymous-remote-clients goes with --anonymous")
            if stand_by and store is None:
                stop("--stand-by waits for the holder of a store; name one: --store URL")
            kept = {} if store is None else _store_attributes(store, stand_by=stand_by)
            kept |= _cluster_attributes(cluster, member, link, has_store=store is not None, stand_by=stand_by)
            broker = _open_from_options(name, listen, kept, users, access, trace=trace, audit=audit)
        else:
            _refuse_options(
                store=store,
                users=users,
                anonymous=anonymous,
                allow_anonymous_remote_clients=allow_anonymous_remote_clients,
                access=access,
                cluster=cluster,
                member=member,
                link=link,
            )
            broker = _open_from_file(configuration or DEFAULT_FILE, stand_by=stand_by, trace=trace, audit=audit)
        with broker, _told_steps() if trace else nullcontext():
            _serve(broker)


def _begin_log(log_format: LogFormat) -> None:
    handler = logging.StreamHandler(sys.stderr)
    if log_format is LogFormat.JSON:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _check_users(users: Path | None, anonymous: bool) -> None:
    if users is None and not anonymous:
        stop("say who may connect: --users FILE (make one with `pyjms broker user add FILE NAME`), or --anonymous")
    if users is not None and anonymous:
        stop("--users and --anonymous contradict each other; give one of them")
    if users is not None and not users.exists():
        stop(f"{users}: there is no such user file; make it with its first user: pyjms broker user add {users} NAME")


def _check_listeners(listen: list[str], anonymous: bool) -> None:
    """Refuse to let in everybody if other machines can reach a listener."""
    if not anonymous:
        return
    from pyjms_provider.transport.listener import is_reached_from_elsewhere

    for number, url in enumerate(listen, 1):
        if is_reached_from_elsewhere(read_listen_url(url, f"listen-{number}").port["host"]):
            stop(
                f"--anonymous lets in everybody without a password, and {url} is reached from other machines: listen at 127.0.0.1, name "
                "users with --users FILE, or say --allow-anonymous-remote-clients"
            )


def _refuse_options(**options: Any) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        stop(f"--{given[0].replace('_', '-')} goes with --listen; without it, the configuration file says all this")


def _open_from_options(
    name: str,
    listen: list[str],
    kept: dict[str, Any],
    users: Path | None,
    access: Path | None,
    *,
    trace: bool,
    audit: Path | None,
) -> ServedBroker:
    from pyjms_provider.serving.served_broker import ServedBroker

    # All URLs are read before anything is opened: a mistake in the last one costs nothing.
    listening = [read_listen_url(url, f"listen-{number}") for number, url in enumerate(listen, 1)]
    with ExitStack() as undo:  # also after Ctrl-C, while a store is opened or another broker holds it
        broker = undo.enter_context(
            closing(ServedBroker.open(name=name, trace=_tracer() if trace else None, audit_file=audit))
        )
        top = broker.broker
        if users is None:
            top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        else:
            top.create_child("authentication_provider", {"name": "users", "type": "user-file", "path": str(users)})
        provider = "anonymous" if users is None else "users"
        top.create_child("access_control", {"name": "access", "rules": _rules(access)})
        host = {"name": name, **kept}
        node = top.create_child("virtual_host_node", {"name": name, "type": "memory"})
        # Without a time limit: it may stand by for the holder of the store, or the store may be large.
        node.configuration_thread.call(lambda: node.create_child("virtual_host", host), however_long=True)
        for each in listening:
            if each.key_store is not None:
                top.create_child("key_store", each.key_store)
            if each.trust_store is not None:
                top.create_child("trust_store", each.trust_store)
            chosen = {"authentication_providers": [provider], "access_control": "access"}
            top.create_child("port", {**each.port, **chosen})
        undo.pop_all()
    return broker


def _store_attributes(url: str, *, stand_by: bool) -> dict[str, Any]:
    from pyjms_provider.model.attributes import split_password
    from pyjms_provider.stores.opening import check_scheme

    check_scheme(url)  # before anything is started
    bare, password = split_password(url)
    attributes = {"store_url": bare, "stand_by": "wait" if stand_by else "refuse"}
    return attributes if password is None else {**attributes, "store_password": password}


def _cluster_attributes(
    cluster: str | None, member: str | None, link: str | None, *, has_store: bool, stand_by: bool
) -> dict[str, Any]:
    """Return the attributes of a virtual host of a cluster; {} without one."""
    if cluster is None:
        for name, value in {"member": member, "link": link}.items():
            if value is not None:
                stop(f"--{name} goes with --cluster")
        return {}
    if not has_store:
        stop("--cluster needs the database that all members share: --store postgresql+psycopg://USER@HOST/DATABASE")
    if stand_by:
        stop("--stand-by and --cluster contradict each other: the other members take over by themselves")
    given = {"cluster": cluster, "cluster_member": member, "cluster_link": link}
    return {name: value for name, value in given.items() if value is not None}


def _rules(access: Path | None) -> list[dict[str, Any]]:
    if access is None:
        return [{"effect": "allow", "who": "*"}]
    from pyjms_provider.security.access import parse_rules, rules_to_data

    return [dict(each) for each in rules_to_data(parse_rules(access.read_text(), str(access)))]


def _open_from_file(path: Path, *, stand_by: bool, trace: bool, audit: Path | None) -> ServedBroker:
    from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
    from pyjms_provider.security.secrets import SecretBox
    from pyjms_provider.serving.served_broker import ServedBroker
    from pyjms_provider.stores.errors import HeldStoreError

    if not path.exists():
        stop(f"there is no {path}; write one with `pyjms broker init`, or say all with --listen (see --help)")
    while True:
        if stand_by:
            await_free(path)
        try:
            return ServedBroker.open(
                TomlConfigurationStore(path),
                context=context_of(path),
                secrets=SecretBox.open(f"{path}.key"),
                trace=_tracer() if trace else None,
                audit_file=audit,
            )
        except HeldStoreError as error:
            if not stand_by:
                raise HeldStoreError(f"{error.reason}, or wait for its end with --stand-by") from error
            # Another stand-by broker took it first.


def _tracer() -> Any:
    log = logging.getLogger("pyjms_provider.wire")

    def trace(*what: object) -> None:
        log.info("%s", " ".join(map(repr, what)))

    return trace


@contextmanager
def _told_steps() -> Iterator[None]:
    from pyjms_provider.serving.steps import tracing_steps

    log = logging.getLogger("pyjms_provider.steps")
    with tracing_steps(lambda step, who: log.info("%s: %s %x", step, type(who).__name__, id(who))):
        yield


def _serve(broker: ServedBroker) -> None:
    """Announce the listeners, and wait for a signal."""
    with ending_signals() as wait_for_signal:
        _announce(broker)
        with _rare_collections():
            wait_for_signal()


def _announce(broker: ServedBroker) -> None:
    from pyjms_provider.model.managed import State

    for each in broker.objects_in(State.STOPPED):
        note(f"{each.path} is stopped{_stopped_by(each)}, and stays so until its operation start", style="yellow")
    for text in _serving_nobody(broker):
        note(text, style="yellow")
    addresses = broker.addresses()
    if not addresses:
        stop(
            "no port listens; see above, and the configuration: a port that was stopped has `stopped = true` in its table `kept`"
        )
    for address in addresses:
        typer.echo(f"listening {address}")
    # A supervisor waits for these lines at the end of a pipe, which Python flushes only when its buffer is full.
    sys.stdout.flush()


def _serving_nobody(broker: ServedBroker) -> Iterator[str]:
    """Yield warnings about objects that work but serve no client, such as one whose lost file was created again, empty."""
    from pyjms_provider.model.managed import State

    for node in broker.broker.children("virtual_host_node"):
        if node.state is State.ACTIVE and not tuple(node.child_names("virtual_host")):
            yield (
                f"{node.path} has no virtual host, so clients find none there: put back what it was kept in, or write one with "
                f"`pyjms manage create URL virtual_host {node.name}/NAME`"
            )
    for provider in broker.broker.children("authentication_provider"):
        if provider.state is not State.ACTIVE or tuple(provider.child_names("user")):
            continue
        path = provider.attribute_values().get("path")
        if path:  # the provider has a user file
            yield f"{provider.path} has no users, so nobody comes in by it: pyjms broker user add {path} NAME"


def _stopped_by(managed: ManagedObject) -> str:
    who = managed.snapshot.record.updated_by
    return f" by {who}" if who else ""


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Have Python's garbage collector run less often, and skip the objects that exist already.

    No message is part of a reference cycle, and a broker makes so many small objects that collections took a tenth of its time.
    """
    before = gc.get_threshold()
    gc.collect()
    # Frozen objects are skipped by later collections: the imported modules and the model stay until the end.
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


_CODE: Final = re.compile(r"PYJMS(?:-[A-Z]+)+-\d+")


class JsonFormatter(logging.Formatter):
    """Formats records as JSON; set it on a handler: ``handler.setFormatter(JsonFormatter())``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON in ASCII: `time` in UTC, `level`, `logger`, `code`, `message`, `error`."""
        message = record.getMessage()
        code = _CODE.match(message)
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        data = {
            "time": time,
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "code": None if code is None else code[0],
            "message": message[0 if code is None else code.end() :].lstrip(),
            "error": self.formatException(record.exc_info) if record.exc_info else None,
        }
        return json.dumps({name: value for name, value in data.items() if value is not None})
