"""Where the story of a message comes from: a pyjms broker's http port, or the recorded history of its clients."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from pyjms.commands.reporting import CommandError
from pyjms.history.reading import read
from pyjms.history.story import describe, story
from pyjms.spi.errors import ProviderError
from pyjms.spi.trust import TrustError, explained, trusting
from pyjms.spi.words import said_by_system

__all__ = ["BrokerStories", "NoAnswerError", "StoryUnavailableError", "history_stories"]

_PREFIX: Final = "/api/latest"
_PATIENCE_S: Final = 60.0
_NS_PER_MS: Final = 1_000_000


class StoryUnavailableError(CommandError):
    """What was named keeps no stories that could be asked for."""

    code = "PYJMS-STORY-UNAVAILABLE"


class NoAnswerError(Exception):
    """The broker does not answer, or could not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStories:
    """Asks a broker's http port."""

    url: str
    user: tuple[str, str] | None = None
    token: str | None = None
    ca_file: Path | None = None

    def find(self, wanted: Mapping[str, str], hosts: Sequence[str]) -> dict[str, Any]:
        """Return the stories that all virtual hosts tell, or those alone that are named NODE/HOST.

        Raises `StoryUnavailableError`, `CommandError`, `NoAnswerError`.
        """
        connection = self._connect()
        try:
            if not hosts:
                found = self._ask(connection, f"{_PREFIX}/virtual_host?fields=names,state&limit=1000")
                items = found.get("items")
                if not isinstance(items, list):
                    raise _foreign(self.url)
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
        if not isinstance(error, dict) or not str(error.get("code", "")).startswith("PYJMS-"):
            raise _foreign(self.url)
        reason = str(error.get("reason"))
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
    """Return the story that recorded clients tell. Raises `CommandError`."""
    try:
        events = story(read(*directories).events, message_id)
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
