"""``pyjms flow``: check definitions of workflows, run engines, look at instances and steer them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pyjms import ConnectionFactory, JMSException, Session
from pyjms.commands import epilog_of
from pyjms.commands.connecting import (
    AsJson,
    BrokerUrl,
    CommandError,
    Login,
    PasswordFile,
    UserName,
    errors_told,
    queue_name,
    tables,
)
from pyjms.commands.signals import told_of_signals
from pyjms.flows.codec import write_flow_document, write_instance
from pyjms.flows.definition import Flow, FlowDefinitionException, read_flow_file
from pyjms.flows.engine import EVENTS, FlowEngine
from pyjms.flows.instance import Instance, Status
from pyjms.flows.picture import draw
from pyjms.flows.server import FlowClient
from pyjms.flows.states import state_of, states_of
from pyjms.flows.store import FlowStore, open_store
from pyjms.spi.arguments import read_password
from pyjms.spi.terminal import FAILED, escaped, listing, note, put_json
from pyjms.spi.words import counted

_FlowFile = Annotated[Path, typer.Argument(help="The definition, as TOML.", metavar="FILE")]
_Store = Annotated[
    str,
    typer.Option(
        help="The database of the workflows, such as sqlite:///flows.db.", metavar="URL", envvar="PYJMS_FLOW_STORE"
    ),
]
_Events = Annotated[str, typer.Option(help="The queue of events that the engines share.", metavar="QUEUE")]
_Id = Annotated[str, typer.Argument(help="The instance's id.", metavar="ID")]
_Picture = Annotated[
    Path | None, typer.Option(help="Write a picture to this file, as SVG.", metavar="FILE", show_default=False)
]
_BROKER: Final = "stomp://127.0.0.1:61613"
_EXAMPLES: Final = {
    "check": ("pyjms flow check order.toml", "pyjms flow check order.toml --picture order.svg"),
    "run": (f"pyjms flow run {_BROKER} order.toml --store sqlite:///flows.db",),
    "start": (f'pyjms flow start {_BROKER} order \'{{"item": "tea"}}\'',),
    "list": (
        "pyjms flow list --store sqlite:///flows.db",
        "pyjms flow list --store sqlite:///flows.db --status parked --json",
    ),
    "show": ("pyjms flow show 6f0c --store sqlite:///flows.db --picture 6f0c.svg",),
    "retry": (f"pyjms flow retry {_BROKER} 6f0c", f"pyjms flow retry {_BROKER} 6f0c --skip"),
    "park": (
        f'pyjms flow park {_BROKER} 6f0c --reason "the customer asked to wait"',
        f'pyjms flow park {_BROKER} 6f0c --cancel --reason "the customer left"',
    ),
}


def commands() -> typer.Typer:
    """Return the commands."""
    app = typer.Typer(help="Workflows over queues: check definitions, run engines, look at instances and steer them.")
    functions: dict[str, Callable[..., None]] = {
        "check": _check,
        "run": _run,
        "start": _start,
        "list": _list,
        "show": _show,
        "retry": _retry,
        "park": _park,
    }
    for name, function in functions.items():
        app.command(name, epilog=epilog_of(_EXAMPLES[name]))(function)
    return app


def _check(file: _FlowFile, picture: _Picture = None, as_json: AsJson = False) -> None:
    """Say what is wrong with a definition, or show its steps. Nothing is connected to.

    Exit code: 0 nothing is wrong, 1 something is, 2 there is nothing that can be read.
    """
    with errors_told("flow check"):
        try:
            flow = read_flow_file(file)
        except FlowDefinitionException as error:
            note(str(error), style="red")
            raise typer.Exit(FAILED) from error
        if picture is not None:
            picture.write_text(draw(flow), encoding="utf-8")
        if as_json:
            states = [asdict(each) | {"status": each.status.value} for each in states_of(flow)]
            put_json(json.loads(write_flow_document(flow)) | {"states": states})
        else:
            _show_steps(flow)


def _run(
    url: BrokerUrl,
    files: Annotated[list[Path] | None, typer.Argument(help="Definitions to deploy before.", metavar="FILE")] = None,
    store: _Store = "sqlite:///flows.db",
    events: _Events = EVENTS,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when nothing is left to do now.")] = False,
    user: UserName = None,
    password_file: PasswordFile = None,
) -> None:
    """Run one engine until Ctrl-C. Any number may share a store and a queue of events; each may be killed.

    While the broker or the store is away, also at the start, it says so and tries again; with --until-idle it ends.

    Exit code: 0 ended in order, 1 it broke off, 2 it cannot be done as asked.
    """
    with errors_told("flow run"), closing(open_store(store)) as opened:
        for file in files or []:
            flow = read_flow_file(file)
            opened.deploy(flow)
            note(f"deployed {flow.name}, version {flow.version}", style="green")
        # The password is asked for before the engine starts, which reconnects by itself and cannot ask.
        password = None if user is None else read_password(user, password_file)
        factory = ConnectionFactory(url, user_name=user, password=password)
        engine = FlowEngine(factory, opened, events=queue_name(events), on_trouble=_tell_trouble)
        # any thread may call stop, and uncommitted events are redelivered
        with told_of_signals(engine.stop):
            served = engine.run(until_idle=until_idle)
        note(f"served {counted(served, 'event')}")


def _start(
    url: BrokerUrl,
    flow: Annotated[str, typer.Argument(help="The definition's name.", metavar="FLOW")],
    data: Annotated[str, typer.Argument(help="What the steps are told, as a JSON object.", metavar="JSON")] = "{}",
    instance: Annotated[
        str | None,
        typer.Option("--id", help="An id of your own: the same one twice begins one instance.", show_default=False),
    ] = None,
    events: _Events = EVENTS,
    user: UserName = None,
    password_file: PasswordFile = None,
) -> None:
    """Have an instance begin, and print its id. An engine does the rest."""
    with errors_told("flow start"):
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CommandError(f"the data is no JSON: {error}") from error
        if not isinstance(content, dict):
            raise CommandError('the data is no JSON object; write one such as {"item": "tea"}')
        with _client(url, events, user, password_file) as client:
            tables().print(escaped(client.start(flow, content, instance=instance)), soft_wrap=True)


def _opened(store: str) -> closing[FlowStore]:
    """Open an existing store for reading: a wrong file name must not create a store. Raises `CommandError`."""
    kind, _, path = store.partition(":///")
    file = Path(path.partition("?")[0])
    # SQLite creates a missing file, and an empty store would look as if no workflow had ever run.
    if kind in {"sqlite", "sqlite+pysqlite"} and path and ":" not in path and not file.exists():
        raise CommandError(
            f"there is no file {file}; name the database of the workflows: --store URL, or PYJMS_FLOW_STORE"
        )
    return closing(open_store(store))


def _list(
    store: _Store = "sqlite:///flows.db",
    flow: Annotated[
        str | None, typer.Option(help="Of this definition alone.", metavar="FLOW", show_default=False)
    ] = None,
    status: Annotated[Status | None, typer.Option(help="Of this status alone.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(help="So many at most.", min=1, max=100_000)] = 100,
    as_json: AsJson = False,
) -> None:
    """List instances, those that changed last first."""
    with errors_told("flow list"), _opened(store) as opened:
        instances = opened.instances(flow=flow, status=status, limit=limit)
        flows = {(each.name, each.version): each for each in opened.flows()}
        if as_json:
            put_json([json.loads(write_instance(each)) for each in instances])
            return
        table = listing("id", "flow", "status", "step", "state", "changed", "why")
        for each in instances:
            known = flows[each.flow, each.version]
            step = "" if each.status.is_final else known.steps[each.position].name
            row = (each.id, f"{each.flow} {each.version}", each.status.value, step, each.state(known))
            table.add_row(*map(escaped, (*row, _when(each.story[-1].time_ms), each.reason)))
        if instances:
            tables().print(table)
        note(counted(len(instances), "instance"))


def _show(
    instance: _Id, store: _Store = "sqlite:///flows.db", picture: _Picture = None, as_json: AsJson = False
) -> None:
    """Show one instance: where it stands, what happened, and what it knows."""
    with errors_told("flow show"), _opened(store) as opened:
        found = opened.find(instance)
        if found is None:
            raise CommandError(f"there is no instance {instance}; `pyjms flow list` names those that are there")
        flow = opened.flow(found.flow, found.version)
        if picture is not None:
            picture.write_text(draw(flow, found), encoding="utf-8")
        if as_json:
            put_json(json.loads(write_instance(found)))
            return
        _show_instance(flow, found)


def _retry(
    url: BrokerUrl,
    instance: _Id,
    skip: Annotated[bool, typer.Option("--skip", help="Go on as if it had been done by hand.")] = False,
    reason: Annotated[str, typer.Option(help="Why; it is kept in the instance's story.", metavar="TEXT")] = "",
    events: _Events = EVENTS,
    user: UserName = None,
    password_file: PasswordFile = None,
) -> None:
    """Have a parked instance try its step, or its compensation, again."""
    with errors_told("flow retry"), _client(url, events, user, password_file) as client:
        client.retry(instance, skip=skip, reason=reason)
        note(f"asked for: {instance} {'goes on after what was done by hand' if skip else 'tries again'}")


def _park(
    url: BrokerUrl,
    instance: _Id,
    reason: Annotated[str, typer.Option(help="Why; it is kept in the instance's story.", metavar="TEXT")],
    cancel: Annotated[bool, typer.Option("--cancel", help="Go back instead: compensate what was done.")] = False,
    events: _Events = EVENTS,
    user: UserName = None,
    password_file: PasswordFile = None,
) -> None:
    """Stop an instance until `pyjms flow retry`; with --cancel, have what it did compensated."""
    with errors_told("flow park"), _client(url, events, user, password_file) as client:
        if cancel:
            client.cancel(instance, reason)
        else:
            client.suspend(instance, reason)
        note(f"asked for: {instance} is {'cancelled' if cancel else 'parked'}")


def _tell_trouble(error: JMSException) -> None:
    note(f"{' '.join(str(error).split())}; trying again", style="yellow")


@contextmanager
def _client(url: str, events: str, user: str | None, password_file: Path | None) -> Iterator[FlowClient]:
    with Login(user, password_file).connect(url) as connection:
        yield FlowClient(connection.create_session(False, Session.AUTO_ACKNOWLEDGE), events=queue_name(events))


def _show_steps(flow: Flow) -> None:
    table = listing("step", "queue", "compensation", "state", "retries", "time limit")
    for step in flow.steps:
        row = (step.name, step.queue, step.compensation or "", step.state, str(step.retries), f"{step.timeout_s:g} s")
        table.add_row(*map(escaped, row))
    tables().print(table)
    if any(step.takes for step in flow.steps):
        _show_states(flow)
    note(f"{flow.name}, version {flow.version}: {counted(len(flow.steps), 'step')}, nothing is wrong", style="green")


def _show_states(flow: Flow) -> None:
    table = listing("status", "step", "others see", "holds", "takes or releases")
    for each in states_of(flow):
        row = (each.status.value, each.step, each.visible_state, ", ".join(each.holds), ", ".join(each.changing))
        table.add_row(*map(escaped, row))
    tables().print("\n[bold]States of its instances[/]")
    tables().print(table)


def _show_instance(flow: Flow, instance: Instance) -> None:
    state = state_of(flow, instance)
    lines: list[tuple[str, Any]] = [
        ("instance", instance.id),
        ("flow", f"{flow.name}, version {flow.version}"),
        ("status", instance.status.value),
        ("state", instance.state(flow)),
        ("holds", ", ".join(state.holds)),
        ("takes or releases", ", ".join(state.changing)),
        ("why", instance.reason),
        ("data", json.dumps(dict(instance.data), ensure_ascii=False)),
    ]
    for name, value in lines:
        if value:
            tables().print(f"[bold]{name}[/]: {escaped(str(value))}", soft_wrap=True)
    table = listing("when", "what", "step", "why")
    for each in instance.story:
        table.add_row(*map(escaped, (_when(each.time_ms), each.what, each.step, each.reason)))
    tables().print(table)


def _when(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
