"""``pyjms route``: check rules, run them, and explain what they do with a message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pyjms.commands import epilog_of
from pyjms.commands.bodies import BodyType, read_bodies, set_properties
from pyjms.commands.connecting import (
    AsJson,
    CommandError,
    Every,
    Idle,
    PasswordFile,
    UserName,
    errors_told,
    queue_name,
    tables,
)
from pyjms.commands.forward import run_route
from pyjms.messages.bodies import JmsTextMessage
from pyjms.messages.freeze import freeze
from pyjms.routing.compiled import CompiledRules, RuleExplained, explain
from pyjms.routing.reading import Problem, RulesError, load_document, read_rules
from pyjms.routing.rules import RuleSet
from pyjms.spi.arguments import read_password
from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope
from pyjms.spi.errors import ProviderError
from pyjms.spi.routes import RouteRequest, find_runner
from pyjms.spi.terminal import FAILED, escaped, note, put_json
from pyjms.spi.words import counted

_RulesFile = Annotated[
    Path, typer.Argument(help="The rules, as TOML or, with the suffix .json, as JSON.", metavar="FILE")
]


def _body_type(text: str | BodyType) -> BodyType:
    """Return the kind of a body. Raises `typer.BadParameter`."""
    try:
        return BodyType(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is neither text nor bytes, which rules look into; the JMSType of the message is --jms-type"
        ) from error


_Kind = Annotated[
    BodyType,
    typer.Option("--type", help="What the body is: text or bytes.", metavar="[text|bytes]", parser=_body_type),
]
_KindBefore = Annotated[BodyType | None, typer.Option("--body", hidden=True)]
"""The name of ``--type`` in pyjms 0.1."""
_CHECK: Final = ("pyjms route check rules.toml",)
_RUN: Final = (
    "pyjms route run rules.toml --url stomp://127.0.0.1:61613 --source orders",
    "pyjms route run rules.toml --idle 5s --json",
)
_EXPLAIN: Final = (
    "pyjms route explain rules.toml --jms-type order --property country=DE --property size:int=3",
    'pyjms route explain rules.toml \'{"customer": {"country": "DE"}}\' --sender shop-7',
    "pyjms route explain rules.toml --file order.xml",
)


def commands() -> typer.Typer:
    """Return the commands."""
    app = typer.Typer(help="Send each message where rules want it: check the rules, run them, explain them.")
    for name, function, examples in (("check", _check, _CHECK), ("run", _run, _RUN), ("explain", _explain, _EXPLAIN)):
        app.command(name, epilog=epilog_of(examples))(function)
    return app


def _check(file: _RulesFile, as_json: AsJson = False) -> None:
    """Say what is wrong with rules, all of it at once, with lines. Nothing is connected to.

    Exit code: 0 nothing is wrong, 1 something is, 2 there is nothing that can be read.
    """
    with errors_told("route check"):
        try:
            data, text = load_document(file)
            rules = read_rules(data, text)
        except RulesError as error:
            if as_json:
                put_json([{"place": each.place, "line": each.line, "text": each.text} for each in error.problems])
            else:
                for each in error.problems:
                    tables().print(f"[bold]{escaped(str(file))}[/]: {escaped(_within(file, each))}", soft_wrap=True)
            note(f"{counted(len(error.problems), 'problem')} in {file}", style="red")
            raise typer.Exit(FAILED) from error
        if "route" in data:
            # A file may have only rules: url and source are options of the command then.
            _look_at_route(file, _settings(file, data, None, None))
        if as_json:
            put_json([])
        many = f"{counted(len(rules.rules), 'rule')}, {counted(len(rules.targets), 'target')}"
        note(f"{file}: {many}, nothing is wrong", style="green")


def _within(file: Path, problem: Problem) -> str:
    """Return a problem as it is shown after the name of its file."""
    return str(problem).replace(f"{file.name}: ", "", 1) if problem.place == file.name else str(problem)


def _cannot_be_read(file: Path, error: RulesError) -> CommandError:
    return CommandError("; ".join(f"{file}: {_within(file, each)}" for each in error.problems))


def _look_at_route(file: Path, settings: dict[str, Any]) -> None:
    try:
        find_runner("route").check(RouteRequest(name=file.stem, settings=settings, clock=SystemClock()))
    except ProviderError as error:
        raise CommandError(error.reason) from error


def _settings(file: Path, data: Any, url: str | None, source: str | None) -> dict[str, Any]:
    given = data.get("route", {})
    if not isinstance(given, dict):
        raise CommandError(f"{file}: write the settings of the route below [route]")
    settings = {name: value for name, value in given.items() if name not in {"name", "password_file"}}
    # The file and not its content: the route watches it for changes.
    settings |= {"rules_file": str(file)}
    settings |= {} if url is None else {"url": url}
    settings |= {} if source is None else {"source": queue_name(source)}
    if "url" not in settings or "source" not in settings:
        raise CommandError(f"{file} does not say from where: give --url and --source, or url and source below [route]")
    return settings


def _run(
    file: _RulesFile,
    url: Annotated[
        str | None, typer.Option(help="The broker of the source.", metavar="URL", show_default=False)
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="The queue to take from.", metavar="QUEUE", show_default=False)
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="The name of the route: targets know by it what they have got. [default: that of the file]",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    idle: Idle = 0,
    every: Every = 10_000,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Route messages by rules until Ctrl-C. Rules that are altered meanwhile are obeyed from the next message on.

    Altered rules that are wrong are refused and told, and those before stay. Exit code: 0 ended in order, 1 it broke off,
    2 it cannot be done as asked.
    """
    with errors_told("route run"):
        try:
            data, _ = load_document(file)
        except RulesError as error:
            raise _cannot_be_read(file, error) from error
        settings = _settings(file, data, url, source)
        secret = data.get("route", {}).get("password_file")
        user = user or settings.get("user")
        if user is not None:
            chosen = password_file or (None if secret is None else Path(str(secret)))
            settings |= {"user": user, "password": read_password(user, chosen)}
        try:
            chosen_name = name or data.get("route", {}).get("name") or file.stem
            run_route("route", str(chosen_name), settings, idle, every, as_json=as_json)
        except ProviderError as error:
            raise CommandError(error.reason) from error


def _explain(
    file: _RulesFile,
    body: Annotated[str | None, typer.Argument(help="The body; - reads standard input.", show_default=False)] = None,
    body_file: Annotated[
        Path | None, typer.Option("--file", help="Read the body from this file.", metavar="PATH", show_default=False)
    ] = None,
    jms_type: Annotated[str | None, typer.Option(help="JMSType.", metavar="TYPE", show_default=False)] = None,
    sender: Annotated[str | None, typer.Option(help="Who sends it.", metavar="WHO", show_default=False)] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            help="NAME=VALUE or NAME:TYPE=VALUE; may be given several times.",
            metavar="NAME:TYPE=VALUE",
            show_default=False,
        ),
    ] = None,
    kind: _Kind = BodyType.TEXT,
    kind_before: _KindBefore = None,
    as_json: AsJson = False,
) -> None:
    """Say where a message would go, and which conditions decided. Nothing is sent.

    Exit code: 0 somebody wants it, 1 nobody does, 2 it cannot be done as asked.
    """
    with errors_told("route explain"):
        try:
            rules = read_rules(*load_document(file))
        except RulesError as error:
            raise _cannot_be_read(file, error) from error
        envelope = _envelope(rules, body, body_file, jms_type, sender, properties or [], kind_before or kind)
        # The decision is the route's own code; the explanation evaluates each condition again, and a test compares the
        # two.
        choices = CompiledRules(rules).decide(envelope)
        explained = explain(rules, envelope)
        targets = [choice.target for choice in choices]
        if as_json:
            put_json({"targets": targets, "rules": [_data(each) for each in explained]})
        else:
            for each in explained:
                _show(each)
            tables().print(
                f"goes to: [green]{escaped(', '.join(targets))}[/]" if targets else "[red]nobody wants it[/]"
            )
        if not targets:
            raise typer.Exit(FAILED)


def _envelope(
    rules: RuleSet,
    body: str | None,
    file: Path | None,
    jms_type: str | None,
    sender: str | None,
    properties: list[str],
    kind: BodyType,
) -> Envelope:
    if kind not in {BodyType.TEXT, BodyType.BYTES}:
        raise CommandError("rules look into texts and bytes; give --type text or --type bytes")
    message = JmsTextMessage()
    message.jms_type = jms_type
    set_properties(message, properties)
    # By way of a message, so that the types of properties are checked as in a send.
    made = freeze(message, Address(AddressKind.QUEUE, "explained"), None, 0, 0, 2, 4)
    named = {} if sender is None else {rules.sender_properties[0]: sender}
    made = replace(made, properties={**made.properties, **named}, body_kind=BodyKind.NONE, body=None)
    if body is None and file is None:
        return made
    found = next(read_bodies(body, file, lines=False))
    if kind is BodyType.BYTES:
        return replace(made, body_kind=BodyKind.BYTES, body=found)
    try:
        return replace(made, body_kind=BodyKind.TEXT, body=found.decode())
    except UnicodeDecodeError as error:
        raise CommandError(f"the body is no UTF-8 text ({error}); explain it with --type bytes") from error


def _show(each: RuleExplained) -> None:
    mark = "[green]wants it[/]" if each.holds else "[dim]not asked[/]" if not each.is_asked else "[red]does not[/]"
    targets = f" → {escaped(', '.join(each.rule.targets))}" if each.holds else ""
    tables().print(f"{mark}  [bold]{escaped(each.rule.name)}[/]{targets}", soft_wrap=True)
    for condition in each.conditions if each.is_asked else ():
        sign = "yes" if condition.holds else "no"
        tables().print(f"    {sign:<4}{escaped(condition.text)}    (it has {escaped(condition.seen)})", soft_wrap=True)


def _data(each: RuleExplained) -> dict[str, Any]:
    return {
        "rule": each.rule.name,
        "line": each.rule.line,
        "asked": each.is_asked,
        "wants": each.holds,
        "targets": list(each.rule.targets),
        "conditions": [
            {"text": condition.text, "holds": condition.holds, "seen": condition.seen} for condition in each.conditions
        ],
        "decided": [condition.text for condition in each.deciding],
    }
