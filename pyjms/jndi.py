"""Administered objects by name, as JNDI gives them to Java programs (JMS 1.1 §2.3, §4.2).

An environment defines the names. It is a file in the syntax of Java's properties, or in TOML, or a mapping;
`docs/reference/jndi.md` has the keys. It is read when the context is created; an object is created, and its
``${VARIABLES}`` are resolved, when its name is looked up. Every error says where in the environment it comes from.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from pyjms.api.base import Closeable, NameNotFoundException, NamingException
from pyjms.api.destination import Destination
from pyjms.errors import JMSException
from pyjms.messages.destinations import JmsQueue, JmsTopic
from pyjms.runtime.factory import ConnectionFactory, QueueConnectionFactory, TopicConnectionFactory
from pyjms.runtime.xa import XAConnectionFactory, XAQueueConnectionFactory, XATopicConnectionFactory

__all__ = ["InitialContext"]

ENVIRONMENT_VARIABLE = "PYJMS_JNDI"
DEFAULT_FILES = ("jndi.properties", "jndi.toml")

_FACTORIES: Mapping[str, type[ConnectionFactory]] = MappingProxyType(
    {
        kind.__name__.lower(): kind
        for kind in (
            ConnectionFactory,
            QueueConnectionFactory,
            TopicConnectionFactory,
            XAConnectionFactory,
            XAQueueConnectionFactory,
            XATopicConnectionFactory,
        )
    }
)
_DEFAULT_FACTORIES: Mapping[str, str] = MappingProxyType(
    {kind.__name__: key for key, kind in _FACTORIES.items()}
    | {"comp/DefaultJMSConnectionFactory": ConnectionFactory.__name__.lower()}
)
"""Names that need no entry: each is a factory for the environment's provider URL. The last one is that of application servers (JMS 2.0)."""

_DESTINATIONS: Mapping[str, type[JmsQueue | JmsTopic]] = MappingProxyType({"queue": JmsQueue, "topic": JmsTopic})
_DYNAMIC: Mapping[str, str] = MappingProxyType({"dynamicQueues/": "queue", "dynamicTopics/": "topic"})
"""Prefixes of names that stand for any destination, as in ActiveMQ."""

_PROVIDER_URLS = ("java.naming.provider.url", "provider_url")
_FACTORY_NAMES = "connectionFactoryNames"
_OPTION_PREFIX = "property."
_CONNECTION_PREFIX = "connection."
"""Prefix of a factory's options in a file of ActiveMQ: ``connection.NAME.brokerURL``."""
_JAVA_PREFIXES = ("java:comp/env/", "java:/", "java:")
"""Prefixes of names in application servers, which select a part of their directory; the longest first."""
_SPELLINGS = MappingProxyType(
    {
        "clientid": "client_id",
        "user": "user_name",
        "username": "user_name",
        "trustedclasses": "trusted",
        "jmstypes": "jms_types",
    }
)
"""Names that other products give to options, in lower case → the parameters of `ConnectionFactory`."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One administered object as the environment describes it, before its variables are resolved."""

    kind: str
    text: str | None = field(repr=False)
    """URL of a factory (None: the environment's provider URL), name of a destination."""
    options: dict[str, Any] = field(repr=False)
    where: str


class _Environment:
    """The environment as read: entries by name, and the texts that variables refer to."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.advice: Callable[[str], str] = _advice_for_properties
        """Returns what to add to the environment, and how, to define an object of that name."""
        self.entries: dict[str, _Entry] = {}
        self._variables: dict[str, tuple[str, str]] = {}

    def add(self, key: str, value: object, where: str) -> None:
        """Add one key of a file or a mapping."""
        prefix, _, name = key.partition(".")
        # Java's files write connectionfactory in any case, tables of TOML connection_factory.
        kind = prefix.lower().replace("_", "")
        if isinstance(value, Mapping):
            self._add_table(key, kind, value, where)
        elif not isinstance(value, str):
            raise NamingException(f"{where}: the value must be a text, not {type(value).__name__}")
        elif key == _FACTORY_NAMES:
            for listed in filter(None, map(str.strip, value.split(","))):
                self._add_entry(listed, _Entry("connectionfactory", None, {}, where))
        elif name and (kind in _FACTORIES or kind in _DESTINATIONS):
            self._add_entry(name, _Entry(kind, value, {}, where))
        # Every text counts as a variable, too, so that entries can share parts by ``${KEY}``.
        self._variables.update({key: (value, where)} if isinstance(value, str) else {})

    def _add_table(self, key: str, kind: str, table: Mapping[str, object], where: str) -> None:
        if kind not in _FACTORIES and kind not in _DESTINATIONS:
            known = "connection_factory, queue_connection_factory, …, queue and topic"
            raise NamingException(f"{where}: there is no table {key!r}; the tables are {known}")
        for name, value in table.items():
            place = f"{where}, name {name!r}"
            if isinstance(value, str):
                self._add_entry(name, _Entry(kind, value, {}, place))
            elif isinstance(value, Mapping) and kind in _FACTORIES:
                options = {_spelling(option): given for option, given in value.items()}
                url = options.pop("url", None)
                if not isinstance(url, str | None):
                    raise NamingException(f"{place}: url must be a text")
                self._add_entry(name, _Entry(kind, url, options, place))
            else:
                raise NamingException(f'{place}: the value must be a text; write a name with dots as "{name}.…"')

    def _add_entry(self, name: str, entry: _Entry) -> None:
        other = self.entries.get(name)
        if other and other.kind != entry.kind:
            raise NamingException(f"{entry.where}: {name!r} is a {other.kind} already ({other.where}); rename one")
        self.entries[name] = entry

    def add_options(self) -> None:
        """Assign ``property.connectionfactory.NAME.OPTION`` to the factories, once all factories are known."""
        self._add_connection_options()
        for key, (value, where) in self._variables.items():
            if not key.lower().startswith(_OPTION_PREFIX):
                continue
            kind, _, rest = key[len(_OPTION_PREFIX) :].partition(".")
            # The last dot divides the two: names have dots, options have none.
            name, _, option = rest.rpartition(".")
            entry = self.entries.get(name)
            if entry is None or entry.kind != kind.lower() or kind.lower() not in _FACTORIES:
                raise NamingException(f"{where}: there is no {kind}.{name} that could have the option {option!r}")
            entry.options[_spelling(option)] = value

    def _add_connection_options(self) -> None:
        """Assign ``connection.NAME.OPTION``, as ActiveMQ's files have it, to the listed factories and to those that
        need no entry.
        """
        for key, (value, where) in self._variables.items():
            if not key.startswith(_CONNECTION_PREFIX):
                continue
            name, _, option = key[len(_CONNECTION_PREFIX) :].rpartition(".")
            if name in _DEFAULT_FACTORIES and name not in self.entries:
                self._add_entry(name, _Entry(_DEFAULT_FACTORIES[name], None, {}, where))
            entry = self.entries.get(name)
            if entry is None or entry.kind not in _FACTORIES:
                continue  # a variable
            if option.lower() == "brokerurl":
                self.entries[name] = replace(entry, text=value, where=where)
            else:
                entry.options[_spelling(option)] = value

    @property
    def provider_url(self) -> tuple[str, str] | None:
        """The URL of factories that have none of their own, and its place in the environment."""
        return next((self._variables[key] for key in _PROVIDER_URLS if key in self._variables), None)

    def expand(self, text: str, where: str, underway: tuple[str, ...] = ()) -> str:
        """Return `text` with its variables replaced: by other entries, or by the process's environment."""

        def replace(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            if not match["end"]:
                raise NamingException(f"{where}: '${{' is never closed by '}}'; write '$${{' for a plain '${{'")
            return self._value_of(match["name"], where, underway)

        return _VARIABLE.sub(replace, text)

    def _value_of(self, name: str, where: str, underway: tuple[str, ...]) -> str:
        # A variable that names itself, directly or through others, would be replaced endlessly.
        if name in underway:
            circle = " → ".join((*underway[underway.index(name) :], name))
            raise NamingException(f"{where}: the variables go round in a circle: {circle}")
        if name in self._variables:
            text, place = self._variables[name]
            return self.expand(text, place, (*underway, name))
        if name in os.environ:
            return os.environ[name]
        raise NamingException(
            f"{where}: ${{{name}}} is neither an entry of {self.source} nor an environment variable; set one of them"
        )


_VARIABLE = re.compile(r"\$\$\{|\$\{(?P<name>[^{}]*)(?P<end>\}?)")


def _spelling(option: str) -> str:
    return _SPELLINGS.get(option.lower(), option)


class InitialContext(Closeable):
    """Finds connection factories and destinations by the names that an administrator gave them.

    environment: a path to a file (``.toml``: TOML; otherwise Java's properties), or a mapping with the keys of such a
    file. None: the file that the variable ``PYJMS_JNDI`` names, else ``jndi.properties`` or ``jndi.toml`` in the
    working directory, else nothing but the names that need no entry: ``ConnectionFactory`` and its like, ``dynamicQueues/NAME``
    and ``dynamicTopics/NAME``.

    Raises `NamingException` when the environment cannot be read. Safe to share between threads.
    """

    def __init__(self, environment: Mapping[str, Any] | str | os.PathLike[str] | None = None) -> None:
        self._environment = _load(environment)
        self._closed = False

    def lookup(self, name: str) -> ConnectionFactory | Destination:
        """Return the object called `name`, newly created.

        ``java:comp/env/``, ``java:/`` and ``java:`` in front of a name are left out, unless there is an entry with it.

        Raises `NameNotFoundException`; `NamingException` when the entry is wrong, or the context closed.
        """
        self._check_open()
        if not isinstance(name, str) or not name:
            raise NamingException(f"lookup needs a name, not {name!r}")
        known = self._environment.entries
        plain = _without_prefix(name)
        # An entry that has the prefix in its own name comes first: such files exist in application servers.
        entry = known.get(name) or known.get(plain) or _unwritten_entry(plain)
        if entry is None:
            raise NameNotFoundException(self._not_found(name, plain))
        return _make(entry, self._environment)

    def list_names(self) -> tuple[str, ...]:
        """Return the names that the environment has entries for, sorted. Raises `NamingException` once closed."""
        self._check_open()
        return tuple(sorted(self._environment.entries))

    def close(self) -> None:
        """Give up the context; objects that were looked up live on. Closing twice does nothing."""
        self._closed = True

    def __repr__(self) -> str:
        return f"<InitialContext of {self._environment.source}: {', '.join(sorted(self._environment.entries))}>"

    def _check_open(self) -> None:
        if self._closed:
            raise NamingException("the context is closed; make another one")

    def _not_found(self, name: str, plain: str) -> str:
        # Only a name that is not found needs it.
        import difflib

        environment = self._environment
        names = sorted(environment.entries)
        near = difflib.get_close_matches(name, names, n=1) or difflib.get_close_matches(plain, names, n=1)
        if near:
            return f"{environment.source} has no name {name!r}; is {near[0]!r} meant?"
        listed = f"it has {', '.join(names)}" if names else "it has no names at all"
        return (
            f"{environment.source} has no name {name!r}: {listed}. {environment.advice(plain)}, or look up "
            f"'dynamicQueues/{plain}'"
        )


def _without_prefix(name: str) -> str:
    for prefix in _JAVA_PREFIXES:
        if name.startswith(prefix) and len(name) > len(prefix):
            return name[len(prefix) :]
    return name


def _advice_for_properties(name: str) -> str:
    key = _SPECIAL.sub(lambda match: "\\" + _UNESCAPED.get(match[0], match[0]), name)
    return f"Add an entry such as 'queue.{key} = PHYSICAL-NAME' or 'connectionfactory.{key} = URL'"


def _advice_for_toml(name: str) -> str:
    key = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")  # what JSON escapes, TOML does, and this
    return f"""Add '{key} = "PHYSICAL-NAME"' to the table [queue], or '{key} = "URL"' to [connection_factory]"""


def _advice_for_mapping(name: str) -> str:
    return f"Add {f'queue.{name}'!r}: 'PHYSICAL-NAME' or {f'connectionfactory.{name}'!r}: 'URL' to the mapping"


def _unwritten_entry(name: str) -> _Entry | None:
    """Return the entry of a name that needs none, or None."""
    if name in _DEFAULT_FACTORIES:
        return _Entry(_DEFAULT_FACTORIES[name], None, {}, f"name {name!r}")
    for prefix, kind in _DYNAMIC.items():
        if name.startswith(prefix) and len(name) > len(prefix):
            # The name comes from the program, not from the administrator, so no variable in it is resolved.
            return _Entry(kind, name[len(prefix) :].replace("${", "$${"), {}, f"name {name!r}")
    return None


def _make(entry: _Entry, environment: _Environment) -> ConnectionFactory | Destination:
    text, place = entry.text, entry.where
    if text is None and (found := environment.provider_url):
        text, place = found
    expanded = None if text is None else environment.expand(text, place)
    options = {name: _expanded(value, entry, environment) for name, value in entry.options.items()}
    try:
        if entry.kind in _FACTORIES:
            return _FACTORIES[entry.kind](expanded, **options)
        return _DESTINATIONS[entry.kind](expanded or "")
    except (JMSException, TypeError, ValueError) as error:
        raise NamingException(f"{place}: {error}") from error


def _expanded(value: Any, entry: _Entry, environment: _Environment) -> Any:
    """Return the value of an option with its variables replaced, those in a table too."""
    if isinstance(value, Mapping):
        return {key: _expanded(each, entry, environment) for key, each in value.items()}
    return environment.expand(value, entry.where) if isinstance(value, str) else value


# ------------------------------------------------------------------------------------------------ reading environments


def _load(given: Mapping[str, Any] | str | os.PathLike[str] | None) -> _Environment:
    if given is None:
        path = _default_file()
        environment = _Environment(str(path) if path else "the default environment")
        if path:
            _add_file(environment, path)
    elif isinstance(given, Mapping):
        environment = _Environment("the environment")
        environment.advice = _advice_for_mapping
        provider_url = next((url for key in _PROVIDER_URLS if isinstance(url := given.get(key), str)), "")
        is_file = provider_url.startswith("file:")
        if is_file:  # the file at this URL is no provider: it holds the rest of the environment
            from urllib.request import url2pathname  # imports all of http.client and email

            path = Path(url2pathname(urlsplit(provider_url).path))
            environment.source = str(path)
            _add_file(environment, path)
        # The mapping comes after the file: the program's values take precedence over the file's.
        for key, value in given.items():
            if not (is_file and key in _PROVIDER_URLS):
                environment.add(key, value, f"environment key {key!r}")
    else:
        environment = _Environment(os.fspath(given))
        _add_file(environment, Path(given))
    # Options come last, as one may stand before its factory in the file.
    environment.add_options()
    return environment


def _default_file() -> Path | None:
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        return Path(named)
    found = [path for name in DEFAULT_FILES if (path := Path.cwd() / name).is_file()]
    # Which of the two was meant cannot be known, and a wrong guess would find other destinations.
    if len(found) > 1:
        raise NamingException(
            f"{found[0].parent} has both {' and '.join(DEFAULT_FILES)}; keep one, or name one in {ENVIRONMENT_VARIABLE}"
        )
    return found[0] if found else None


def _add_file(environment: _Environment, path: Path) -> None:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NamingException(
            f"cannot read {path}: {error.strerror}; correct the path (argument, or {ENVIRONMENT_VARIABLE})"
        ) from error
    environment.advice = _advice_for_toml if path.suffix == ".toml" else _advice_for_properties
    if path.suffix == ".toml":
        import tomllib

        try:
            tables = tomllib.loads(content.decode("utf-8"))
        except ValueError as error:
            raise NamingException(f"{path} is no TOML: {error}") from error
        except RecursionError as error:
            raise NamingException(f"{path} is nested too deeply; is it the right file?") from error
        for key, value in tables.items():
            environment.add(key, value, f"{path}, {f'[{key}]' if isinstance(value, Mapping) else f'key {key!r}'}")
        return
    for key, value, line in _properties(content, path):
        environment.add(key, value, f"{path}, line {line}")


def _properties(content: bytes, path: Path) -> Iterator[tuple[str, str, int]]:
    """Yield key, value and line number, by the rules of java.util.Properties. UTF-8, else ISO 8859-1."""
    # java.util.Properties reads ISO 8859-1, and editors write UTF-8. A text that is valid UTF-8
    # is hardly ever meant as the other.
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("iso-8859-1")
    for line, number in _logical_lines(text):
        match = _KEY.match(line)
        assert match is not None, "the pattern matches every text"
        where = f"{path}, line {number}"
        yield _unescape(match["key"], where), _unescape(line[match.end() :], where), number


_BLANKS = " \t\f"
_KEY = re.compile(r"(?P<key>(?:[^\\=: \t\f]|\\.|\\$)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u(?P<code>[0-9A-Fa-f]{4})|.|$)", re.DOTALL)
_ESCAPED = MappingProxyType({"t": "\t", "n": "\n", "r": "\r", "f": "\f"})
_UNESCAPED = MappingProxyType({plain: letter for letter, plain in _ESCAPED.items()})
_SPECIAL = re.compile(r"[\\=: \t\n\r\f]")
"""Characters that would end a key, or would be read as something else in it."""


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield each logical line with content, joined with its continuation lines, and its number, from 1 on."""
    joined, start = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(_BLANKS)
        # Within an entry that goes on, a line that begins with # belongs to its value, as in Java.
        if not start and (not line or line[0] in "#!"):
            continue
        start = start or number
        # Two backslashes are one that means itself: only an odd number continues the line.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            continue
        yield joined + line, start
        joined, start = "", 0
    if joined:
        yield joined, start


def _unescape(text: str, where: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match["code"]:
            return chr(int(match["code"], 16))
        if match[1] == "u":
            raise NamingException(f"{where}: '\\u' needs four hexadecimal digits; write '\\\\' for a plain backslash")
        return _ESCAPED.get(match[1], match[1])

    # Two escapes may be the halves of one character, as in Java.
    return _ESCAPE.sub(replace, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
