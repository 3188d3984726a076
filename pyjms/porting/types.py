"""The types of Java's library and of JMS, read once from `tables/java.txt` (which describes their format) and
`tables/jms.txt`.

Also the connection factories of providers, and the advice about classes without a translation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final

from pyjms.porting.model import Type

_CLASS = re.compile(
    r"(?:class|interface|exception) (?P<name>[\w.]+)(?:<(?P<args>[\w, ]+)>)?(?: < (?P<supers>.+?))?(?: = (?P<code>.+))?"
)
_MEMBER = re.compile(
    r"(?P<static>static )?(?:(?P<returns>[\w.<>$\[\], ]+?) )?(?P<name>\w+)(?P<call>\((?P<params>[^)]*)\))?"
    r"(?: = (?P<template>.*?))?(?: @(?P<flag>\w+))?"
)


@dataclass(frozen=True, slots=True)
class Member:
    """A method, a constructor (`name` is ``new``) or a constant."""

    name: str
    params: tuple[str, ...] | None
    """The types in the table's notation; None: it is no method."""
    returns: str
    template: str | None
    """The Python template; None: the same as in Java."""
    is_static: bool
    flag: str | None
    owner: LibraryType

    @property
    def variadic(self) -> bool:
        """Whether it takes any number of arguments."""
        return bool(self.params) and self.params is not None and self.params[-1].endswith("...")


@dataclass(slots=True)
class LibraryType:
    """A class or interface of the library."""

    name: str
    parameters: tuple[str, ...]
    supers: tuple[str, ...]
    code: str | None = None
    """The Python class for it, in ``isinstance`` and as a base; None: there is none."""
    members: list[Member] = field(default_factory=list)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        # Commas in type arguments separate no parameters.
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _read(table: str, package: str = "") -> Iterator[LibraryType]:
    current: LibraryType | None = None
    text = files("pyjms.porting").joinpath("tables", table).read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            match = _CLASS.fullmatch(line)
            assert match is not None, line
            supers = tuple(part.strip() for part in _split(match["supers"] or "") if part.strip())
            current = LibraryType(
                package + match["name"], tuple((match["args"] or "").split(", ")), supers, match["code"]
            )
            yield current
            continue
        match = _MEMBER.fullmatch(line.strip())
        assert match is not None, line
        assert current is not None, line
        params = None if match["call"] is None else tuple(p.strip() for p in _split(match["params"]) if p.strip())
        returns = match["returns"] or ("void" if match["name"] != "new" else "")
        current.members.append(
            Member(match["name"], params, returns, match["template"], bool(match["static"]), match["flag"], current)
        )


LIBRARY_TYPES: Final[Mapping[str, LibraryType]] = {
    each.name: each for each in (*_read("jms.txt", "javax.jms."), *_read("java.txt"))
}
# Names that two packages have: `Queue` is JMS's in these programs, and loggers are identified by their full names.
_NO_SIMPLE: Final = ("java.util.Queue", "org.", "java.util.logging.")
_SIMPLE: Final = {name.rpartition(".")[2]: name for name in LIBRARY_TYPES if not name.startswith(_NO_SIMPLE)} | {
    "IllegalStateException": "java.lang.IllegalStateException"
}
PACKAGES: Final = frozenset(name.rpartition(".")[0] for name in LIBRARY_TYPES)


def type_named(text: str, arguments: Mapping[str, Type]) -> Type:
    """Return a type in the tables' notation: a simple name, perhaps with arguments and ``[]``."""
    plain = text.removesuffix("...")
    dims = plain.count("[]")
    plain = plain.replace("[]", "")
    if plain in arguments:
        found = arguments[plain]
        return Type(found.name, found.args, found.dims + dims)
    name, _, rest = plain.partition("<")
    args = tuple(type_named(part.strip(), arguments) for part in _split(rest[:-1])) if rest else ()
    return Type(_SIMPLE.get(name, name), args, dims)


def arguments_of(owner: LibraryType, receiver: Type | None) -> dict[str, Type]:
    """Return the values of the type parameters of `owner` for an object of the type `receiver`."""
    given = receiver.args if receiver is not None and receiver.args else ()
    default = Type("java.lang.Object")
    return {
        name: given[place] if place < len(given) else default for place, name in enumerate(owner.parameters) if name
    }


def unify(pattern: Type, actual: Type, bound: dict[str, Type]) -> None:
    """Bind the variables of a type, which begin with ``$``, by matching it with `actual`."""
    if pattern.name.startswith("$"):
        # These determine nothing about a variable, and would bind it before a better argument.
        if actual.name not in {"null", "void", "?"} and not actual.name.startswith("$") and actual.dims >= pattern.dims:
            # The first argument decides, as Java's inference would need a common supertype of all.
            bound.setdefault(pattern.name, Type(actual.name, actual.args, actual.dims - pattern.dims))
        return
    for one, other in zip(pattern.args, actual.args, strict=False):
        unify(one, other, bound)


def substituted(pattern: Type, bound: Mapping[str, Type]) -> Type:
    """Return a type with its bound variables replaced."""
    if pattern.name in bound:
        found = bound[pattern.name]
        return Type(found.name, found.args, found.dims + pattern.dims)
    return Type(pattern.name, tuple(substituted(each, bound) for each in pattern.args), pattern.dims)


def without_variables(kind: Type) -> Type:
    """Return a type with Object in place of unbound variables."""
    if kind.name.startswith("$"):
        return Type("java.lang.Object", (), kind.dims)
    return Type(kind.name, tuple(without_variables(each) for each in kind.args), kind.dims)


def function_method(name: str) -> Member | None:
    """Return the abstract method of a functional interface of the library."""
    known = LIBRARY_TYPES.get(name)
    is_function = name.startswith("java.util.function.") or name in _FUNCTIONS
    # The tables list the abstract method of such an interface first, default methods behind it.
    return known.members[0] if known is not None and is_function else None


_FUNCTIONS: Final = frozenset(
    {
        "java.lang.Runnable",
        "java.util.Comparator",
        "java.util.concurrent.Callable",
        "javax.jms.ExceptionListener",
        "javax.jms.MessageListener",
    }
)


def supertypes(name: str) -> Iterator[LibraryType]:
    """Yield a type of the library, and all its supertypes."""
    known = LIBRARY_TYPES.get(name)
    if known is not None:
        yield known
        for each in known.supers:
            plain = each.partition("<")[0]
            yield from supertypes(_SIMPLE.get(plain, plain))


def is_subclass(name: str, other: str) -> bool:
    """Return whether a type of the library is another one, or a subtype of it."""
    return other in {"java.lang.Object", name} or any(each.name == other for each in supertypes(name))


def find_members(type_name: str, name: str) -> list[Member]:
    """Return the members of a type with a name, inherited ones last."""
    return [member for each in supertypes(type_name) for member in each.members if member.name == name]


PROVIDERS: Mapping[str, str] = {
    "ActiveMQConnectionFactory": "ConnectionFactory",
    "ActiveMQJMSConnectionFactory": "ConnectionFactory",
    "ActiveMQQueueConnectionFactory": "QueueConnectionFactory",
    "ActiveMQTopicConnectionFactory": "TopicConnectionFactory",
    "ActiveMQPooledConnectionFactory": "ConnectionFactory",
    "ActiveMQXAConnectionFactory": "XAConnectionFactory",
    "PooledConnectionFactory": "ConnectionFactory",
    "JmsConnectionFactory": "ConnectionFactory",
    "RMQConnectionFactory": "ConnectionFactory",
    "StompJmsConnectionFactory": "ConnectionFactory",
}
"""The pyjms class for a provider's connection factory, by its simple name."""

_ADVICE = {
    "org.springframework.": "write what Spring does: a loop with receive, a listener, or a producer of your own",
    "org.apache.activemq.": "it is ActiveMQ's own: see what pyjms has for it, or leave it out",
    "org.apache.qpid.": "it is Qpid's own: use pyjms.ConnectionFactory with a stomp:// URL",
    "com.ibm.": "it is IBM MQ's own, which speaks no STOMP: use pyjms.ConnectionFactory with the stomp:// URL of a broker that does; "
    "host, port, channel and queue manager become that URL, user and password its options (docs/how-to/stomp.md)",
    "com.sun.messaging.": "it is Open MQ's own, whose broker has a STOMP bridge (imq.bridge.stomp): use "
    "pyjms.ConnectionFactory('stomp://HOST:7672'), with what setProperty gave it as URL and options (docs/how-to/stomp.md)",
    "com.solacesystems.": "it is Solace's own, which speaks no STOMP: use pyjms.ConnectionFactory with the stomp:// URL of a broker that "
    "does; the VPN becomes its virtual host, user and password its options (docs/how-to/stomp.md)",
    "com.tibco.": "it is TIBCO EMS' own, which speaks no STOMP: use pyjms.ConnectionFactory with the stomp:// URL of a broker that does; "
    "user and password are its options (docs/how-to/stomp.md)",
    "weblogic.": "it is WebLogic's own: use pyjms.InitialContext with a jndi.properties that names a broker that speaks STOMP",
    "oracle.jms.": "it is Oracle AQ's own: use pyjms.ConnectionFactory with the stomp:// URL of a broker that speaks STOMP",
    "org.hornetq.": "it is HornetQ's own: use pyjms.ConnectionFactory with the stomp:// URL of its STOMP acceptor, or of Artemis'",
    "org.jboss.": "it is JBoss' own: use pyjms.ConnectionFactory with the stomp:// URL of its STOMP acceptor",
    "com.rabbitmq.": "it is RabbitMQ's own: use pyjms.ConnectionFactory with the stomp:// URL of its STOMP plugin",
    # Before the enclosing package: the first matching prefix is used.
    "javax.transaction.xa.": "distributed transactions are pyjms.XAResource and pyjms.Xid: docs/how-to/transactions.md",
    "javax.transaction.": "distributed transactions are pyjms.XAResource: docs/how-to/transactions.md",
}


def unknown_class_advice(name: str) -> str:
    """Return the advice for a class without a translation."""
    for prefix, advice in _ADVICE.items():
        if name.startswith(prefix):
            return advice
    if name.rpartition(".")[0] in PACKAGES:
        return "find what Python has for it"
    return "port the file that has it together with this one, or find what Python has for it"
