"""The credentials of the account that runs the program, for connections that are made without any (JMS 1.1 §4.3.1).

The file, and the variables ``PYJMS_USER`` and ``PYJMS_PASSWORD``, name the place that each credential is for; it is sent to no other one.
All parts of pyjms that connect ask `account_credentials`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from pyjms.spi.errors import AccessDeniedError, ProviderError, UrlError
from pyjms.spi.url import ProviderUrl

__all__ = [
    "FILE_VARIABLE",
    "Credentials",
    "CredentialsError",
    "NamesPlaces",
    "account_credentials",
    "credentials_file",
    "login_at_http",
    "login_of_account",
]

FILE_VARIABLE: Final = "PYJMS_CREDENTIALS"
"""The environment variable with the path of the file."""
_USER, _PASSWORD, _URL = "PYJMS_USER", "PYJMS_PASSWORD", "PYJMS_URL"
_BYTES_MAX: Final = 1_000_000
_HTTP_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_EXAMPLE: Final = '["stomp://broker.example:61613"] with user = "…" and password = "…" below it'


class NamesPlaces(Protocol):
    """Names the places that a connection may send credentials to, as providers do."""

    def login_places(self, url: ProviderUrl) -> tuple[str, ...]:
        """Return the places, as SCHEME://HOST:PORT; (): it sends none. Raises `UrlError`."""
        ...


class CredentialsError(AccessDeniedError):
    """The credentials of the account cannot be used: the file is not safe or not valid; nothing was sent."""

    code = "PYJMS-CREDENTIALS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A user and the password, which its representation leaves out."""

    user_name: str
    password: str | None = field(repr=False)


def account_credentials(provider: NamesPlaces, url: ProviderUrl) -> Credentials | None:
    """Return the account's credentials for a connection to `url`, which `provider` serves; None: it has none.

    Those of the environment count for the places of ``PYJMS_URL`` alone, and come before those of the file. A URL that names several places,
    for failover, gets credentials only if they are the same for all. Raises `CredentialsError`, and `UrlError` for an invalid `url`.
    """
    places = provider.login_places(url)
    if not places:
        return None
    of_environment = _of_environment(provider, url.scheme, places)
    if of_environment is not None:
        return of_environment
    path, is_named = credentials_file()
    entries = _read(path, is_named=is_named)
    known = {place: entry for name, entry in entries.items() for place in _places_of(provider, url.scheme, name, path)}
    found = [known.get(place) for place in places]
    first = found[0]
    if any(each != first for each in found):
        raise CredentialsError(
            f"{path} has not the same user and password for all of {', '.join(places)}, which one connection may log in to: write an entry "
            "for each, or give the user and the password to create_connection"
        )
    return first


def login_of_account(provider: NamesPlaces, url: ProviderUrl) -> tuple[str | None, str | None]:
    """Return user name and password of `account_credentials`; both None: there are none. Raises as it does."""
    found = account_credentials(provider, url)
    return (None, None) if found is None else (found.user_name, found.password)


def login_at_http(url: str) -> tuple[str, str] | None:
    """Return user name and password of the account for the http port of a broker; None: there are none. Raises `CredentialsError`."""
    try:
        parsed = ProviderUrl.parse(url)
    except UrlError:  # the client of that port explains it
        return None
    found = account_credentials(_HttpPorts(), parsed) if parsed.scheme in _HTTP_PORTS else None
    return None if found is None or found.password is None else (found.user_name, found.password)


class _HttpPorts:
    def login_places(self, url: ProviderUrl) -> tuple[str, ...]:
        host = f"[{url.host}]" if ":" in url.host else url.host
        return (f"{url.scheme}://{host.lower()}:{_HTTP_PORTS[url.scheme] if url.port is None else url.port}",)


def credentials_file() -> tuple[Path, bool]:
    """Return the path of the file, and whether the environment names it: then it must exist."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named), True
    home = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(home) if home and Path(home).is_absolute() else Path("~/.config")
    return folder / "pyjms" / "credentials.toml", False


def _of_environment(provider: NamesPlaces, scheme: str, places: tuple[str, ...]) -> Credentials | None:
    user, at = os.environ.get(_USER), os.environ.get(_URL)
    if not user or not at:
        return None
    try:
        there = ProviderUrl.parse(at)
        own = provider.login_places(there) if there.scheme == scheme else ()
    except ProviderError:  # whoever connects to that URL gets the error
        return None
    if not set(places) <= set(own):
        return None
    return Credentials(user_name=user, password=os.environ.get(_PASSWORD) or None)


def _places_of(provider: NamesPlaces, scheme: str, name: str, path: Path) -> tuple[str, ...]:
    """Return the places of an entry's URL; none if it is of another scheme. Raises `CredentialsError`."""
    try:
        url = ProviderUrl.parse(name)
        # An entry of another scheme is another provider's: it may not be installed here.
        found = provider.login_places(url) if url.scheme == scheme else ()
    except ProviderError as error:
        raise CredentialsError(f"{path}, [{name!r}]: {error.reason}") from error
    if url.user_name is not None or url.password is not None or url.options or url.path not in {"", "/"}:
        raise CredentialsError(f"{path}: the name of an entry is SCHEME://HOST:PORT alone; write {_EXAMPLE}")
    return found


# The file


def _read(path: Path, *, is_named: bool) -> Mapping[str, Credentials]:
    """Return the entries by their URLs. Raises `CredentialsError`, which shows no value."""
    content = _content(path, is_named=is_named)
    if content is None:
        return {}
    import tomllib  # few programs have such a file

    try:
        tables = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        # Without the cause, whose attributes may hold the text.
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else type(error).__name__
        raise CredentialsError(f"{path} is no TOML: {reason}; write {_EXAMPLE}") from None
    return {name: _entry(name, table, path) for name, table in tables.items()}


def _entry(name: str, table: Any, path: Path) -> Credentials:
    values = table if isinstance(table, Mapping) else {}
    user, password = values.get("user"), values.get("password")
    if not values.keys() <= {"user", "password"} or not (isinstance(user, str) and user and isinstance(password, str)):
        raise CredentialsError(
            f"{path}, {name!r}: it needs user and password, as texts, and nothing else; write {_EXAMPLE}"
        )
    return Credentials(user_name=user, password=password)


def _content(path: Path, *, is_named: bool) -> bytes | None:
    """Return what is in the file; None: there is none. Raises `CredentialsError` when others may read or change it."""
    try:
        # Not blocking, for a path that is a pipe without a writer.
        number = os.open(path.expanduser(), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        if not is_named:
            return None
        raise CredentialsError(
            f"{path}, which {FILE_VARIABLE} names, is not there; write it, or unset the variable"
        ) from None
    except (
        OSError,
        RuntimeError,
        ValueError,
    ) as error:  # RuntimeError: there is no home; ValueError: a NUL in the path
        if isinstance(error, RuntimeError):
            return None
        raise CredentialsError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        # The open file is checked, not the path, which may name another one a moment later.
        _check_safe(os.fstat(number), path)
        with os.fdopen(number, "rb", closefd=False) as file:
            content = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise CredentialsError(f"{path} cannot be read: {error.strerror}") from error
    finally:
        os.close(number)
    if len(content) > _BYTES_MAX:
        raise CredentialsError(f"{path} has more than {_BYTES_MAX} bytes; is it the right file?")
    return content


def _check_safe(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise CredentialsError(f"{path} is no file; write {_EXAMPLE} into one")
    if os.name != "posix":  # its permissions are not in the mode
        return
    if found.st_uid not in {os.geteuid(), 0}:
        raise CredentialsError(f"{path} belongs to another user, and is not used; make a file of your own")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise CredentialsError(f"{path} may be read or changed by other users, and is not used; run: chmod 600 {path}")
