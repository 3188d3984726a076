"""``pyjms broker init``: create a folder with a commented configuration and a first operator; and ``--listen URL``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

import typer

from pyjms.spi.arguments import read_password
from pyjms.spi.errors import UrlError
from pyjms.spi.terminal import escaped
from pyjms.spi.url import ProviderUrl
from pyjms_provider.commands.checked_file import DEFAULT_FILE
from pyjms_provider.commands.telling import PasswordFile, errors_told, show, stop

_TRANSPORTS: Final = {
    "stomp": ("stomp", "tcp"),
    "stomps": ("stomp", "tls"),
    "stomp+ws": ("stomp", "websocket"),
    "stomp+wss": ("stomp", "secure_websocket"),
    "amqp": ("amqp", "tcp"),
    "amqps": ("amqp", "tls"),
    "amqp+ws": ("amqp", "websocket"),
    "amqp+wss": ("amqp", "secure_websocket"),
    "http": ("http", "tcp"),
    "https": ("http", "tls"),
}
_SECURE: Final = frozenset({"stomps", "stomp+wss", "amqps", "amqp+wss", "https"})
_FILES: Final = ("certificate", "key", "trust")
_HOSTS: Final = "allowed_hosts"
_EXAMPLE: Final = "write for instance stomp://127.0.0.1:61613, or stomp://127.0.0.1:0 for any free port"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """One port."""

    port: dict[str, Any]
    key_store: dict[str, Any] | None = field(default=None, repr=False)
    trust_store: dict[str, Any] | None = None


def read_listen_url(text: str, name: str) -> Listening:
    """Return the port that ``--listen`` describes; `name`: the name of the port. Raises `UrlError` that shows the syntax."""
    url = ProviderUrl.parse(text)
    known = _TRANSPORTS.get(url.scheme)
    if known is None:
        raise UrlError(f"a broker does not listen at {url.scheme}://; it can at {', '.join(_TRANSPORTS)}; {_EXAMPLE}")
    if not url.host:
        raise UrlError(f"{text!r} names no address to listen at; {_EXAMPLE}")
    if url.user_name is not None or url.password is not None:
        raise UrlError("who may connect is said by --users or --anonymous, not in the URL")
    kind, transport = known
    port: dict[str, Any] = {"name": name, "type": kind, "host": url.host, "transports": [transport]}
    if url.port is not None:
        port["port"] = url.port
    options = dict(url.options)
    files = {each: options.pop(each) for each in _FILES if each in options}
    if kind == "http" and _HOSTS in options:
        port[_HOSTS] = options.pop(_HOSTS).split(",")
    if options:
        known_options = ", ".join((*_FILES, *((_HOSTS,) if kind == "http" else ())))
        raise UrlError(f"{url.scheme}:// has no option {next(iter(options))!r}; it has {known_options}")
    if url.scheme not in _SECURE:
        if files:
            raise UrlError(f"{next(iter(files))}= is for TLS; write stomps:// with it")
        return Listening(port=port)
    if "certificate" not in files:
        raise UrlError(f"{url.scheme}:// needs the broker's certificate: {text}?certificate=FILE.pem&key=FILE.pem")
    keys = {"name": f"{name}-key", "certificate_file": files["certificate"]}
    if "key" in files:
        keys["key_file"] = files["key"]
    port["key_store"] = keys["name"]
    trusted = None
    if "trust" in files:
        trusted = {"name": f"{name}-trust", "certificate_file": files["trust"]}
        port |= {"trust_store": trusted["name"], "client_certificates": "wanted"}
    return Listening(port=port, key_store=keys, trust_store=trusted)


_DATA: Final = "data"
_HOST: Final = "default"
_OPERATORS: Final = "administrators"
_TEMPLATE: Final = """\
# Configuration of a pyjms broker.
#
#   pyjms broker check      says what is wrong with this file, without starting anything
#   pyjms broker run        runs the broker in this folder, until Ctrl-C
#   pyjms broker tree       tells all that can be written here, with defaults
#
# The broker may be changed while it runs (pyjms manage, or in a browser at http://127.0.0.1:@HTTP_PORT@); it then writes the
# change here, and leaves your comments where they are. Change the file by hand only while the broker is stopped.
version = 1

[broker]
name = "@NAME@"

# Variables for the texts below: ${data} stands for the folder of all that the broker keeps, beside this file.
# What is not found here is looked for in the environment: ${stomp.port} would be STOMP_PORT.
[broker.context]
data = "${pyjms.work_dir}/data"

# Who somebody is: users with passwords, in a file that holds argon2id hashes only. See who there is, and add another:
#   pyjms broker user list data/users
#   pyjms broker user add data/users NAME --group staff
[[authentication_provider]]
name = "users"
type = "user-file"
path = "${data}/users"

# What they may do. The first rule that fits decides; what none allows is denied. A rule may also name a kind (queue,
# topic, managed, …), a pattern of names, and a virtual host:
#   { effect = "allow", who = "group:staff", operations = ["write"], kind = "queue", name = "orders.*" }
[[access_control]]
name = "access"
rules = [
    # Who is in the group administrators may do everything; the first operator is.
    { effect = "allow", who = "group:@OPERATORS@" },
    # Nobody else sees or changes the broker itself ...
    { effect = "deny", who = "*", kind = "managed" },
    # ... but everybody who logs in may send and receive, browse, and use queues that are not there yet.
    { effect = "allow", who = "*", operations = ["connect", "write", "read", "browse", "create"] },
]

# Where the configuration of a virtual host is kept, with its queues: in a JSON file, which the broker writes. The file
# says too that the messages are in the SQLite database data/messages.db, and that what becomes of those that leave without having
# been consumed is written down in data/stories, for: pyjms story MESSAGE-ID.
[[virtual_host_node]]
name = "@HOST@"
type = "json"
path = "${data}/@HOST@.json"

# Where clients connect: stomp://127.0.0.1:@STOMP_PORT@. Only programs on this machine can, as 127.0.0.1 is its own address;
# 0.0.0.0 stands for all addresses. Passwords go over such a port as they are: use TLS (transports = ["tls"], with a
# [[key_store]]) before you open it to a network.
[[port]]
name = "stomp"
type = "stomp"
host = "127.0.0.1"
port = @STOMP_PORT@
authentication_providers = ["users"]
access_control = "access"

# Where operators connect: http://127.0.0.1:@HTTP_PORT@, for REST and pyjms manage.
[[port]]
name = "http"
type = "http"
host = "127.0.0.1"
port = @HTTP_PORT@
# allowed_hosts = ["broker.example"]   # names by which browsers ask, besides localhost and addresses
authentication_providers = ["users"]
access_control = "access"
"""


def init(
    directory: Annotated[Path, typer.Argument(help="Where to; it is made if need be.", metavar="DIRECTORY")] = Path(),
    user: Annotated[
        str | None,
        typer.Option(
            help="The first operator; else it is asked for.", metavar="NAME", envvar="PYJMS_USER", show_default=False
        ),
    ] = None,
    password_file: PasswordFile = None,
    name: Annotated[str, typer.Option(help="The broker's name.")] = "broker",
    stomp_port: Annotated[int, typer.Option(help="Where clients connect; 0: any free port.", min=0, max=65535)] = 61613,
    http_port: Annotated[int, typer.Option(help="Where operators connect; 0: the same.", min=0, max=65535)] = 8161,
) -> None:
    """Write a commented configuration, with a user file, and a virtual host that keeps its messages in SQLite.

    There is no default password: the first operator's is asked for. Nothing is overwritten. Then start the broker with
    `pyjms broker run` in that folder.
    """
    with errors_told():
        file, data = directory / DEFAULT_FILE, directory / _DATA
        for each in (file, data / "users", data / f"{_HOST}.json"):
            if each.exists():
                stop(f"{each} is there already, and nothing is overwritten; name another folder, or remove it first")
        _check_name(name)
        operator = user or _asked_name()
        password = read_password(operator, password_file, is_new=True)
        _make(file, data, operator, password, _text(name, stomp_port, http_port))
    show(f"[green]wrote[/] {escaped(str(file))}, with the operator {escaped(operator)}")
    where = "" if directory == Path() else f"cd {directory} && "
    show(f"Start the broker: [bold]{escaped(where)}pyjms broker run[/]")


def _check_name(name: str) -> None:
    if not name.isprintable() or not name or '"' in name or "\\" in name:
        stop(f"{name!r} cannot be the broker's name; use letters, digits, and what joins them")


def _asked_name() -> str:
    if not sys.stdin.isatty():
        stop("who is the first operator? Say --user NAME")
    return str(typer.prompt("Name of the first operator", err=True))


def _text(name: str, stomp_port: int, http_port: int) -> str:
    words = {
        "NAME": name,
        "HOST": _HOST,
        "OPERATORS": _OPERATORS,
        "STOMP_PORT": str(stomp_port),
        "HTTP_PORT": str(http_port),
    }
    text = _TEMPLATE
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def _make(file: Path, data: Path, operator: str, password: str, text: str) -> None:
    """Write all files, the configuration last, so that an interrupted call does not look like a broker."""
    from pyjms_provider.model.configuration.json_file import JsonConfigurationStore
    from pyjms_provider.security.user_file import UserFile
    from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord

    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    users, host = data / "users", data / f"{_HOST}.json"
    with ExitStack() as undo:  # also after Ctrl-C
        undo.callback(users.unlink, missing_ok=True)
        UserFile(users).add(operator, password, [_OPERATORS])
        undo.callback(host.unlink, missing_ok=True)
        attributes = {"name": _HOST, "type": "standard", "store_url": "sqlite:///${data}/messages.db"}
        attributes |= {
            "story": "ends",
            "story_directory": "${data}/stories",
        }  # recording unconsumed messages costs nothing
        store = JsonConfigurationStore(host)
        store.open("pyjms broker init")
        try:
            store.update(
                [ObjectRecord(id=ObjectId(uuid4()), category="virtual_host", parent=None, attributes=attributes)]
            )
        finally:
            store.close()
        # "x" refuses a file that another `init` has written since the check.
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
        undo.pop_all()
