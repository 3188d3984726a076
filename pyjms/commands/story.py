"""``pyjms story``."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

import typer

from pyjms.commands.connecting import AsJson, CommandError, PasswordFile, UserName, errors_told, tables
from pyjms.history.reading import read
from pyjms.history.story import describe
from pyjms.history.story import story as story_of
from pyjms.spi.arguments import read_password
from pyjms.spi.credentials import login_at_http
from pyjms.spi.errors import ProviderError
from pyjms.spi.terminal import FAILED, escaped, listing, note, put_json
from pyjms.spi.trust import TrustError, explained, trusting
from pyjms.spi.words import counted, said_by_system

# The source of a message's story: a pyjms broker's HTTP port, or the recorded history of its clients.

_PREFIX: Final = "/api/latest"
_PATIENCE_S: Final = 60.0
_NS_PER_MS: Final = 1_000_000


class StoryUnavailableError(CommandError):
    """The named server keeps no stories that could be queried."""

    code = "PYJMS-STORY-UNAVAILABLE"


class NoAnswerError(Exception):
    """The broker does not answer, or failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStories:
    """Queries a broker's HTTP port."""

    url: str
    user: tuple[str, str] | None = None
    token: str | None = None
    ca_file: Path | None = None

    def find(self, wanted: Mapping[str, str], hosts: Sequence[str]) -> dict[str, Any]:
        """Return the stories of all virtual hosts, or only of the one named NODE/HOST.

        Raises `StoryUnavailableError`, `CommandError`, `NoAnswerError`.
        """
        connection = self._connect()
        try:
            if not hosts:
                found = self._ask(connection, f"{_PREFIX}/virtual_host?fields=names,state&limit=1000")
                items = found.get("items")
                if not isinstance(items, list):
                    raise _foreign(self.url)
                # Each part is quoted separately, as a name may contain a slash.
                hosts = ["/".join(quote(name, safe="") for name in each["names"]) for each in items]
            answers = {
                host: self._ask(
                    connection, f"{_PREFIX}/virtual_host/{quote(host, safe='/%')}/story?{urlencode(wanted)}"
                )["result"]
                for host in hosts
            }
        except (OSError, HTTPException) as error:
            parts = urlsplit(self.url)
            mistake = explained(
                error, f"{parts.scheme}://{parts.netloc}", connection.host, connection.port, self.ca_file
            )
            if mistake is not None:
                raise CommandError(mistake.reason) from error
            raise NoAnswerError(
                f"nothing answers at {self.url}: {said_by_system(error)}; see whether the broker runs"
            ) from error
        # JSON with another structure than a pyjms broker's
        except (KeyError, TypeError) as error:
            raise _foreign(self.url) from error
        finally:
            connection.close()
        return {
            "stories": [{"virtual_host": host, **each} for host, told in answers.items() for each in told["stories"]],
            "virtual_hosts": {host: {**told, "stories": len(told["stories"])} for host, told in answers.items()},
        }

    def _connect(self) -> HTTPConnection:
        try:
            parts = urlsplit(self.url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise CommandError(f"{self.url!r} is no URL: {error}") from error
        if parts.scheme not in {"http", "https"} or not host:
            raise StoryUnavailableError(
                f"{self.url} tells no stories (PYJMS-STORY-UNAVAILABLE): a pyjms broker is asked at its http port, as "
                "--url http://127.0.0.1:8161; of other brokers there are recordings of their clients: --history DIR"
            )
        # A URL is visible to other users in the list of processes.
        if parts.username is not None:
            raise CommandError("a URL is no place for a user's name and password; say --user NAME")
        if parts.scheme == "http":
            return HTTPConnection(host, port, timeout=_PATIENCE_S)
        try:
            context = trusting(self.ca_file)
        except TrustError as error:
            raise CommandError(error.reason) from error
        return HTTPSConnection(host, port, timeout=_PATIENCE_S, context=context)

    def _ask(self, connection: HTTPConnection, path: str) -> dict[str, Any]:
        headers = {"accept": "application/json", "user-agent": "pyjms-story"}
        if self.user is not None:
            headers["authorization"] = f"Basic {base64.b64encode(':'.join(self.user).encode()).decode()}"
        elif self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        text = response.read()
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise _foreign(self.url) from None
        if response.status < 300 and isinstance(found, dict):
            return found
        error = found.get("error") if isinstance(found, dict) else None
        # An answer of another server, such as a proxy, must not be shown as the broker's.
        if not isinstance(error, dict) or not str(error.get("code", "")).startswith("PYJMS-"):
            raise _foreign(self.url)
        reason = str(error.get("reason"))
        # The broker failed, so a retry may help; codes below mean that the question is wrong.
        if response.status >= 500:
            raise NoAnswerError(reason)
        hint = "; log in with --user NAME" if response.status == 401 and self.user is None else ""
        raise CommandError(f"{reason}{hint}")


def _foreign(url: str) -> StoryUnavailableError:
    return StoryUnavailableError(
        f"{url} answers, but not as a pyjms broker that tells stories does (PYJMS-STORY-UNAVAILABLE); of other brokers "
        "there are recordings of their clients: --history DIR"
    )


def history_stories(directories: Sequence[Path], message_id: str) -> dict[str, Any]:
    """Return the story from clients' recordings. Raises `CommandError`."""
    try:
        events = story_of(read(*directories).events, message_id)
    except ProviderError as error:
        raise CommandError(error.reason) from error
    steps = [
        {
            "at_ms": each.t0 // _NS_PER_MS,
            "what": each.op,
            "where": each.dest or "",
            "state": None,
            "text": describe(each),
            "facts": {name: value for name, value in asdict(each).items() if value is not None},
        }
        for each in events
    ]
    found = [{"message_id": message_id, "correlation_id": None, "steps": steps, "now": []}] if steps else []
    return {"stories": found, "virtual_hosts": {}}


EXAMPLES: Final = (
    "pyjms story ID:shop-4f2a-1:1:7 --user boss",
    "pyjms story --correlation-id A-17 --url https://broker:8161 --ca-file ca.pem --user boss --json",
    "pyjms story --property customer=4711 --virtual-host default/default --user boss",
    "pyjms story ID:shop-4f2a-1:1:7 --history recordings",
)
_TOKEN: Final = "PYJMS_TOKEN"  # noqa: S105 - the name of a variable

_CaFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Whom to trust, for https: certificates as PEM.", metavar="FILE", show_default=False),
]
_Property: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Instead of ID: a property that the virtual host's story_properties names.",
        metavar="NAME=VALUE",
        show_default=False,
    ),
]


def story(
    message_id: Annotated[
        str | None, typer.Argument(help="The message's JMSMessageID.", metavar="ID", show_default=False)
    ] = None,
    url: Annotated[
        str, typer.Option("--url", "--broker", help="A pyjms broker's http port.", metavar="URL")
    ] = "http://127.0.0.1:8161",
    correlation_id: Annotated[
        str | None, typer.Option(help="Instead of ID: the JMSCorrelationID.", metavar="TEXT", show_default=False)
    ] = None,
    property: _Property = None,
    virtual_host: Annotated[
        list[str] | None,
        typer.Option(help="Ask only this one; may be given several times.", metavar="NODE/HOST", show_default=False),
    ] = None,
    limit: Annotated[
        int, typer.Option(help="So many messages of a virtual host at most.", min=1, max=100, metavar="NUMBER")
    ] = 20,
    history: Annotated[
        list[Path] | None,
        typer.Option(help="Ask no broker, but the recordings in this directory.", metavar="DIR", show_default=False),
    ] = None,
    user: UserName = None,
    password_file: PasswordFile = None,
    ca_file: _CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Tell what happened to a message, when, through whom and why, and where it is now.

    A broker tells what its virtual hosts write down: what went wrong with messages (story=ends), or every step
    (story=all). Exit code: 0 told, 1 there is no such message or the broker does not answer, 2 it cannot be done as
    asked.
    """
    with errors_told("story"):
        named = {"id": message_id, "correlation_id": correlation_id, "property": property}
        wanted = {name: value for name, value in named.items() if value}
        if len(wanted) != 1:
            raise CommandError("say which message: an ID, --correlation-id TEXT, or --property NAME=VALUE")
        if history:
            if message_id is None:
                raise CommandError("recordings are searched by the ID of a message alone")
            found = history_stories(history, message_id)
        else:
            token = os.environ.get(_TOKEN)
            if user is not None:
                login: tuple[str, str] | None = (user, read_password(user, password_file))
            else:
                login = None if token else login_at_http(url)
            asked = BrokerStories(url=url, user=login, token=token, ca_file=ca_file)
            try:
                found = asked.find({**wanted, "most": str(limit)}, virtual_host or ())
            except NoAnswerError as error:
                note(f"pyjms story: {error}", style="red")
                raise typer.Exit(FAILED) from error
    if as_json:
        put_json(found)
    else:
        for each in found["stories"]:
            _show(each)
        _note_gaps(found)
    if not found["stories"]:
        if not as_json:
            note(f"nothing is known of a message with {' '.join(f'{name} {value}' for name, value in wanted.items())}")
        raise typer.Exit(FAILED)


def _show(told: dict[str, Any]) -> None:
    console = tables()
    place = f" at {told['virtual_host']}" if "virtual_host" in told else ""
    console.print(f"[bold]{escaped(str(told['message_id']))}[/]{escaped(place)}", soft_wrap=True)
    table = listing("time (UTC)", "where", "state", "what", whole={"time (UTC)"})
    for step in told["steps"]:
        table.add_row(_time(step["at_ms"]), escaped(step["where"]), escaped(step["state"] or ""), escaped(step["text"]))
    if told["steps"]:
        console.print(table)
    for each in told["now"]:
        holder = f", held by session {each['session']}" if each["session"] else ""
        console.print(
            f"[green]now[/] {escaped(each['where'])}: {escaped(each['state'])}, delivered {counted(each['delivery_count'], 'time')}{escaped(holder)}",
            soft_wrap=True,
        )
    if "virtual_host" in told and not told["now"]:
        console.print("[yellow]now[/] in no queue and no durable subscription")


def _note_gaps(found: dict[str, Any]) -> None:
    """Report what makes a story incomplete."""
    for host, told in found["virtual_hosts"].items():
        if told["level"] == "off":
            note(
                f"{host} writes no stories; give it story=ends or story=all: pyjms manage set URL virtual_host {host} …"
            )
        elif told["level"] == "ends":
            note(f"{host} writes down only what leaves without having been consumed (story=ends)")
        if told["missing"]:
            note(f"{host} could not write down about {counted(told['missing'], 'step')}", style="yellow")
        if told["is_cut"]:
            note(f"{host} knows more such messages; see --limit", style="yellow")


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d}"
