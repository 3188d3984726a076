"""``pyjms manage``: a broker's REST API as commands, which know the objects only from the API's description."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import unquote

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from pyjms.spi.arguments import read_password
from pyjms.spi.credentials import login_at_http
from pyjms.spi.terminal import FAILED, escaped, listing, note, printable, put_json, results
from pyjms.spi.words import rounded
from pyjms_provider.commands.rest_client import CategoryDescription, NoAnswerError, RefusedError, RestClient
from pyjms_provider.commands.telling import AsJson, PasswordFile, errors_told, show, stop

Resolve = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def read_values(texts: Sequence[str], declared: Mapping[str, Any], resolve: Resolve) -> dict[str, Any]:
    """Convert typed texts to JSON values; `declared`: the JSON schemas by name. Ends the command if a text is invalid."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.rstrip(":"):
            stop(f"{text!r}: write NAME=VALUE, NAME:=JSON, NAME=@FILE for the text of a file, or NAME=? to be asked")
        if name.endswith(":"):
            name = name[:-1]
            found[name] = _json(value, name)
        elif value == "?":
            found[name] = _ask(name)
        elif value.startswith("@"):
            # Editors end a file with a line break, which is no part of the value.
            found[name] = Path(value[1:]).read_text(encoding="utf-8").rstrip("\r\n")
        else:
            found[name] = _convert(value, declared.get(name, {}), resolve, name)
    return found


def _ask(name: str) -> str:
    if not sys.stdin.isatty():
        stop(f"nobody is there to be asked for {name}; write {name}=@FILE")
    return str(typer.prompt(name, hide_input=True, err=True))


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        stop(f"{name}: {text!r} is no JSON: {error}")


def _convert(text: str, schema: Mapping[str, Any], resolve: Resolve, name: str) -> Any:
    """Convert a text to the schema's type; a text that does not fit stays one, which the broker may be able to read."""
    if "anyOf" in schema:
        # A schema that accepts the text as another type wins; if none does, it stays a text.
        for each in schema["anyOf"]:
            value = _convert(text, each, resolve, name)
            if not isinstance(value, str):
                return value
        return text
    schema = resolve(schema)
    kind = schema.get("type")
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind in {"integer", "number"}:
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            return text  # a variable, or a number with a unit
    if kind == "object" or (kind == "array" and text.startswith("[")):
        return _json(text, name)
    if kind == "array":
        items = schema.get("items", {})
        return [_convert(each.strip(), items, resolve, name) for each in text.split(",") if each.strip()]
    return text


_TOKEN: Final = "PYJMS_TOKEN"  # noqa: S105 - the name of a variable
_COLUMNS: Final = 6
_GAP: Final = 2
"""Blanks between two columns."""
_ALERTS: Final = "alert_count"
"""Shown beside them if an object has alerts."""
_EPILOG: Final = """\b
Examples:
    pyjms manage list http://127.0.0.1:8161 queue --user boss --filter "waiting > 100" --sort -waiting
    pyjms manage create http://127.0.0.1:8161 queue default/default/orders max_messages=10000
    pyjms manage set http://127.0.0.1:8161 queue default/default/orders paused=true
    pyjms manage call http://127.0.0.1:8161 queue default/default/orders purge
    pyjms manage describe http://127.0.0.1:8161 queue"""

_URL: Final = "http://127.0.0.1:8161"
_EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "list": (
        f'list {_URL} queue --filter "waiting > 100" --sort -waiting --fields name,waiting,consumers',
        f"list {_URL} connection default/default --json",
        f"list {_URL} workflow_instance default/default/flows --filter \"status = 'parked'\" --sort -changed_at_ms",
    ),
    "show": (f"show {_URL} queue default/default/orders", f"show {_URL} broker --fields state,uptime_seconds"),
    "create": (
        f"create {_URL} queue default/default/orders max_messages=10000 overflow=block",
        f"create {_URL} user users/bob password=? groups:='[\"staff\"]'",
    ),
    "set": (
        f"set {_URL} queue default/default/orders paused=true --default max_messages",
        f"set {_URL} virtual_host default/default story=all",
    ),
    "delete": (f"delete {_URL} queue default/default/orders --yes",),
    "call": (
        f"call {_URL} queue default/default/orders move_messages target=later \"selector=region = 'north'\"",
        f"call {_URL} dead_letter default/default/DLQ replay dry_run=true",
        f"call {_URL} port stomp start",
        f"call {_URL} workflow_instance default/default/flows/ID history",
        f'call {_URL} workflow_instance default/default/flows/ID retry "reason=the bank is back"',
    ),
    "describe": (f"describe {_URL}", f"describe {_URL} queue"),
}

Url: TypeAlias = Annotated[
    str, typer.Argument(help="The broker's REST API: http://127.0.0.1:8161.", metavar="URL", show_default=False)
]
_Category: TypeAlias = Annotated[
    str, typer.Argument(help="queue, port, virtual_host, …; see `describe`.", metavar="CATEGORY", show_default=False)
]
_Address: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="The object's names from the broker down, joined by /; write %2F for a / within a name.",
        metavar="ADDRESS",
        show_default=False,
    ),
]
_Values: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        help="NAME=VALUE; NAME:=JSON; NAME=@FILE for the text of a file; NAME=? to be asked without being seen.",
        metavar="NAME=VALUE",
        show_default=False,
    ),
]
_Fields: TypeAlias = Annotated[
    str | None, typer.Option(help="Only these, joined by commas.", metavar="NAMES", show_default=False)
]
_Actual: TypeAlias = Annotated[
    bool, typer.Option("--actual", help="Attributes as they were given, with their variables.")
]
User: TypeAlias = Annotated[
    str | None, typer.Option(help="Log in as this user.", metavar="NAME", envvar="PYJMS_USER", show_default=False)
]
CaFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Whom to trust, for https: certificates as PEM.", metavar="FILE", show_default=False),
]


def commands() -> typer.Typer:
    """Return the commands below ``pyjms manage``."""
    app = typer.Typer(
        no_args_is_help=True,
        help="See and change a broker while it runs, through its REST API. Exit codes: 0 done, 1 the broker could not, or "
        "does not answer, 2 it cannot be done as asked, 130 Ctrl-C.",
        epilog=_EPILOG,
    )
    named: Mapping[str, Callable[..., None]] = {
        "list": list_objects,
        "show": show_object,
        "create": create,
        "set": change,
        "delete": delete,
        "call": call,
        "describe": describe,
    }
    for name, command in named.items():
        examples = "\n".join(f"    pyjms manage {each}" for each in _EXAMPLES[name])
        app.command(name, epilog=f"\b\nExamples:\n{examples}")(command)
    return app


def list_objects(
    url: Url,
    category: _Category,
    below: Annotated[str, typer.Argument(help="Only those below this address.", show_default=False)] = "",
    fields: _Fields = None,
    condition: Annotated[
        str | None,
        typer.Option("--filter", help='A condition on fields: "waiting > 100".', metavar="TEXT", show_default=False),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            help="By these fields, joined by commas; - before one: downwards.", metavar="NAMES", show_default=False
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="So many at most; 0: all.", min=0)] = 100,
    offset: Annotated[int, typer.Option(help="Leave out so many.", min=0)] = 0,
    actual: _Actual = False,
    user: User = None,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List the objects of a category."""
    with open_client(url, user, password_file, ca_file) as client:
        described = client.category(category)
        options = _options(fields, actual=actual, filter=condition, sort=sort)
        names = _names(below)
        if len(names) < len(described.names):
            page = client.page(category, names, limit, offset, **options)
        else:  # the address of one object, as the empty one of the broker
            page = {"items": [client.get(category, _whole(described, below), **options)], "total": 1, "offset": 0}
    if as_json:
        put_json(page)
        return
    if page["items"]:
        show(_table(page["items"], described, fields))
    left = page["total"] - page["offset"] - len(page["items"])
    note(f"{page['total']:,} in all" if left <= 0 else f"{left:,} more; see --limit and --offset")


def show_object(
    url: Url,
    category: _Category,
    address: Annotated[str, typer.Argument(help="As for the others; that of the broker is empty.")] = "",
    fields: _Fields = None,
    actual: _Actual = False,
    user: User = None,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show all of one object."""
    with open_client(url, user, password_file, ca_file) as client:
        described = client.category(category)
        names = _whole(described, address)
        found = client.get(category, names, **_options(fields, actual=actual))
    _show_object(found, described, as_json=as_json)


def create(
    url: Url,
    category: _Category,
    address: _Address,
    values: _Values = None,
    user: User = None,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Create an object; its address ends with the new name."""
    with open_client(url, user, password_file, ca_file) as client:
        described = client.category(category)
        given = read_values(values or (), described.attributes, client.resolved)
        created = client.create(category, _whole(described, address), given)
    _show_object(created, described, as_json=as_json)


def change(
    url: Url,
    category: _Category,
    address: Annotated[
        str, typer.Argument(help="As for the others; that of the broker is - alone.", metavar="ADDRESS")
    ],
    values: _Values = None,
    default: Annotated[
        list[str] | None,
        typer.Option(help="Give this attribute its default again; may be given several times.", metavar="NAME"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also what you could not undo, as it locks you out.")] = False,
    user: User = None,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Change attributes of an object."""
    with open_client(url, user, password_file, ca_file) as client:
        described = client.category(category)
        given = read_values(values or (), described.attributes, client.resolved)
        given |= dict.fromkeys(default or ())
        if not given:
            stop("say what to change: NAME=VALUE, or --default NAME")
        changed = client.change(category, _whole(described, "" if address == "-" else address), given, force=force)
    _show_object(changed, described, as_json=as_json)


def delete(
    url: Url,
    category: _Category,
    address: _Address,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    user: User = None,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
) -> None:
    """Delete an object, with all below it. Asks before, unless --yes."""
    with open_client(url, user, password_file, ca_file) as client:
        names = _whole(client.category(category), address)
        if not yes and not sys.stdin.isatty():
            stop("nobody is there to be asked; say --yes to delete it")
        if not yes and not typer.confirm(f"Delete {category} {address}, with all below it?", err=True):
            stop("nothing was deleted", FAILED)
        client.delete(category, names)
    show(f"[green]deleted[/] {escaped(category)} {escaped(address)}")


def call(
    url: Url,
    category: _Category,
    address: Annotated[
        str, typer.Argument(help="As for the others; that of the broker is - alone.", metavar="ADDRESS")
    ],
    operation: Annotated[str, typer.Argument(help="What to do; see `describe`.", metavar="OPERATION")],
    values: _Values = None,
    user: User = None,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Run an operation of an object, and print its result. Ctrl-C ends a long one half way."""
    with open_client(url, user, password_file, ca_file) as client:
        described = client.category(category)
        found = described.operations.get(operation)
        if found is None:
            known = ", ".join(described.operations) or "none"
            stop(f"a {category} has no operation {operation!r}; it has: {known}")
        names = _whole(described, "" if address == "-" else address)
        arguments = read_values(values or (), found.arguments, client.resolved)
        # On standard error: the result on standard output stays readable for programs.
        bars = Progress(console=Console(stderr=True), transient=True, disable=not Console(stderr=True).is_terminal)
        with bars:
            task = bars.add_task(operation, total=None)
            result = client.call(
                category,
                names,
                found,
                arguments,
                lambda done, total: bars.update(task, completed=done, total=total),
            )
    if as_json:
        put_json({"result": result})
    else:
        _show_result(result)


def describe(
    url: Url,
    category: Annotated[str | None, typer.Argument(help="Tell all of this one.", show_default=False)] = None,
    user: User = None,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Tell what categories there are, or what can be seen, set and done with the objects of one."""
    with open_client(url, user, password_file, ca_file) as client:
        known = list(client.categories()) if category is None else [client.category(category)]
    if as_json:
        put_json([_as_data(each) for each in known])
    elif category is None:
        table = listing("category", "address", "operations")
        for each in known:
            table.add_row(f"[cyan]{each.name}[/]", "/".join(each.names), ", ".join(each.operations))
        show(table)
    else:
        _show_description(known[0])


# Connection and addresses


@contextmanager
def open_client(url: str, user: str | None, password_file: Path | None, ca_file: Path | None) -> Iterator[RestClient]:
    """Give a client; errors end the process."""
    with errors_told():
        token = os.environ.get(_TOKEN)
        if user is not None:
            login: tuple[str, str] | None = (user, read_password(user, password_file, is_new=False))
        else:
            login = None if token else login_at_http(url)
        try:
            with RestClient(url, user=login, token=token, ca_file=ca_file) as client:
                yield client
        except NoAnswerError as error:
            stop(error.reason, FAILED)
        except RefusedError as error:
            # Other refusals are handled by `errors_told`, with code 2: the request cannot be done.
            if error.is_failure:
                stop(error.reason, FAILED)
            raise


def _names(address: str) -> list[str]:
    # Split before it is decoded, as by the API: a name may hold a slash, written as %2F.
    return [unquote(each) for each in address.strip("/").split("/")] if address.strip("/") else []


def _whole(described: CategoryDescription, address: str) -> list[str]:
    names = _names(address)
    if len(names) != len(described.names):
        shape = "/".join(name.upper() for name in described.names) or "nothing"
        stop(f"the address of a {described.name} is {shape}, not {address!r}")
    return names


def _options(fields: str | None, *, actual: bool, **others: str | None) -> dict[str, str]:
    options = {name: value for name, value in {"fields": fields, **others}.items() if value is not None}
    return options | ({"actual": "true"} if actual else {})


# Output


def _text(value: Any, name: str = "") -> str:
    if value is None:
        return ""
    if (name.endswith("_at_ms") or name == "since_ms") and isinstance(value, int):
        return f"{datetime.fromtimestamp(value // 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, float) and name.endswith("_rate"):
        return rounded(value)
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _table(items: list[dict[str, Any]], described: CategoryDescription, fields: str | None) -> Table:
    """Return a table of the requested fields, or of the most informative ones that fit: state, and measured values."""
    if fields is not None:
        columns = [each.strip() for each in fields.split(",") if each.strip()]
    else:
        shown = [name for name in described.fields if name in items[0]]
        facts = {"name", "type", "names", "id", "category", "desired_state", "error", "life_time"}
        facts |= set() if described.is_changeable else {"state"}  # observed objects are active as long as they exist
        measured = [
            name
            for name in shown
            if name not in facts
            and name not in described.attributes
            and not name.startswith(("created_", "updated_"))
            and isinstance(items[0][name], (int, float, str, bool))
        ]
        columns = _fitting(items, [*(["type"] if items[0].get("type") else []), *measured][:_COLUMNS])
        if any(item.get(_ALERTS) for item in items) and _ALERTS not in columns:
            columns.append(_ALERTS)
    table = listing(*(["address"] if fields is None else []), *columns)
    for item in items:
        address = [_address(item)] if fields is None else []
        table.add_row(*(escaped(each) for each in address), *(escaped(_text(item.get(name), name)) for name in columns))
    return table


def _address(item: Mapping[str, Any]) -> str:
    return "/".join(item.get("names") or [str(item.get("name", ""))])


def _fitting(items: list[dict[str, Any]], columns: list[str]) -> list[str]:
    """Return as many columns as fit beside the address, which is the argument of other commands and must not be broken."""
    width = results().width - max(cell_len(escaped(_address(item))) for item in items)
    fitting: list[str] = []
    for name in columns:
        width -= _GAP + max(cell_len(each) for each in (name, *(_text(item.get(name), name) for item in items)))
        if width < 0:
            break
        fitting.append(name)
    return fitting


def _show_object(found: Mapping[str, Any], described: CategoryDescription, *, as_json: bool) -> None:
    if as_json:
        put_json(found)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in found.items():
        style = "bold" if name in described.attributes else "cyan"
        table.add_row(f"[{style}]{escaped(name)}[/]", escaped(_text(value, name)))
    show(table)


def _show_result(result: Any) -> None:
    """Show the result of an operation: rows as a table, a document unchanged, so that it can be written to a file."""
    if isinstance(result, list) and result and all(isinstance(each, dict) for each in result):
        table = listing(*result[0])
        for each in result:
            table.add_row(*(escaped(_text(each.get(name), name)) for name in result[0]))
        show(table)
    elif isinstance(result, (dict, list)):
        put_json(result)
    elif isinstance(result, str) and "\n" in result:
        show(escaped(result.rstrip("\n")))
    else:
        show(f"[green]done[/] {escaped('' if result is None else str(result))}".rstrip())


def _as_data(described: CategoryDescription) -> dict[str, Any]:
    return {
        "category": described.name,
        "address": list(described.names),
        "is_changeable": described.is_changeable,
        "attributes": described.attributes,
        "fields": described.fields,
        "operations": {
            name: {"summary": each.summary, "is_long": each.is_long, "arguments": each.arguments}
            for name, each in described.operations.items()
        },
    }


def _show_description(described: CategoryDescription) -> None:
    show(f"[bold cyan]{described.name}[/], at {'/'.join(described.names) or 'the top'}")
    table = listing("field", "can be set", "", whole={"field"})
    for name in {**described.fields, **described.attributes}:
        is_given = name in described.attributes and described.is_changeable
        text = described.fields.get(name) or str(described.attributes.get(name, {}).get("description", ""))
        table.add_row(f"[cyan]{name}[/]", "yes" if is_given else "", escaped(text))
    show(table)
    if described.operations:
        operations = listing("operation", "arguments", "", whole={"operation"})
        for name, each in described.operations.items():
            arguments = (one if one in each.required else f"[{one}]" for one in each.arguments)
            operations.add_row(f"[cyan]{name}[/]", escaped(" ".join(arguments)), escaped(each.summary))
        show("")
        show(operations)
