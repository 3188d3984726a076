"""The one table of the tree's shape: the place of each category, its specialisations, and whose configuration it stores.

Everything that walks, shows or documents the tree reads this table. Classes are named by module, so that the table can be
read without them. Installed packages add categories and specialisations when a broker opens (`model.plugins`); programs do by `add_category`
and `add_specialisation`. What a package could not add is remembered with the reason, for the error of an object that needs it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from pyjms_provider.model.errors import UnknownCategoryError

ROOT: Final = "system_config"
_MODEL: Final = "pyjms_provider.model"


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryShape:
    """One category's place in the tree."""

    category: str
    parent: str | None
    summary: str
    types: Mapping[str, str] = field(default_factory=dict)
    """The class that implements each specialisation, by name: ``module:Class`` below the model."""
    manages_children: bool = False
    """Whether it stores the configuration of all below it, down to the next one that does (Broker-J `managesChildren`)."""
    is_only_child: bool = False
    """Whether a parent has one of them at most."""
    is_observed: bool = False
    """Whether its objects arise from the work of clients, so that no operator creates them."""
    default_type: str | None = None
    """The type of an object that names none; None: it must name one."""


def _one(path: str) -> Mapping[str, str]:
    return {"": path}


TREE: Mapping[str, CategoryShape] = {
    shape.category: shape
    for shape in (
        CategoryShape(
            category=ROOT,
            parent=None,
            summary="the root: where the broker's configuration is",
            types=_one("broker:SystemConfig"),
            manages_children=True,
            default_type="",
        ),
        CategoryShape(
            category="broker",
            parent=ROOT,
            summary="the broker as a whole",
            types=_one("broker:Broker"),
            is_only_child=True,
            default_type="",
        ),
        CategoryShape(
            category="key_store",
            parent="broker",
            summary="a private key and its certificates, which identify the broker",
            types=_one("security:KeyStore"),
            default_type="",
        ),
        CategoryShape(
            category="trust_store",
            parent="broker",
            summary="trusted certificates, which identify clients",
            types=_one("security:TrustStore"),
            default_type="",
        ),
        CategoryShape(
            category="authentication_provider",
            parent="broker",
            summary="authenticates users",
            types={
                "user-file": "security:UserFileProvider",
                "certificate": "security:CertificateProvider",
                "jwt": "security:JwtProvider",
                "introspection": "security:IntrospectionProvider",
                "anonymous": "security:AnonymousProvider",
            },
        ),
        CategoryShape(
            category="user",
            parent="authentication_provider",
            summary="a user in the provider's own user file",
            types=_one("security:User"),
            default_type="",
        ),
        CategoryShape(
            category="access_control",
            parent="broker",
            summary="decides what users may do",
            types={"rules": "security:AccessControl"},
            default_type="rules",
        ),
        CategoryShape(
            category="virtual_host_node",
            parent="broker",
            summary="where the configuration of a virtual host is kept",
            types={
                "memory": "virtual_host_node:MemoryNode",
                "json": "virtual_host_node:JsonNode",
                "sql": "virtual_host_node:StoreNode",
                "store": "virtual_host_node:StoreNode",
            },
            manages_children=True,
        ),
        CategoryShape(
            category="virtual_host",
            parent="virtual_host_node",
            summary="one name space of destinations, with its messages",
            types={"standard": "virtual_host:VirtualHost"},
            default_type="standard",
            is_only_child=True,
        ),
        CategoryShape(
            category="store",
            parent="virtual_host",
            summary="where its messages are",
            types=_one("host_views:Store"),
            is_only_child=True,
            is_observed=True,
        ),
        CategoryShape(
            category="queue",
            parent="virtual_host",
            summary="keeps messages until a consumer takes them; created by an operator, or by first use",
            types={
                "standard": "queue:ManagedQueue",
                "priority": "queue:ManagedQueue",
                "last_value": "queue:ManagedQueue",
                "sorted": "queue:ManagedQueue",
                "total_order": "queue:ManagedQueue",
            },
            default_type="standard",
        ),
        CategoryShape(
            category="topic",
            parent="virtual_host",
            summary="passes messages on to its subscribers",
            types=_one("host_views:ManagedTopic"),
            is_observed=True,
        ),
        CategoryShape(
            category="durable_subscription",
            parent="virtual_host",
            summary="keeps a topic's messages for a subscriber that may be away",
            types=_one("host_views:DurableSubscription"),
            is_observed=True,
        ),
        CategoryShape(
            category="shared_subscription",
            parent="virtual_host",
            summary="passes a topic's messages to the consumers that share it, and ends with the last of them",
            types=_one("host_views:SharedSubscription"),
            is_observed=True,
        ),
        CategoryShape(
            category="dead_letter",
            parent="virtual_host",
            summary="a queue of messages that were given up, with the reasons",
            types=_one("host_views:DeadLetterQueue"),
            is_observed=True,
        ),
        CategoryShape(
            category="transaction",
            parent="virtual_host",
            summary="a branch of a distributed transaction",
            types=_one("host_views:Transaction"),
            is_observed=True,
        ),
        CategoryShape(
            category="reader_group",
            parent="virtual_host",
            summary="a data pipeline's hold on messages of a queue or a durable subscription",
            types=_one("host_views:ReaderGroup"),
            is_observed=True,
        ),
        CategoryShape(
            category="registered_client",
            parent="virtual_host",
            summary="a client whose last committed request and reply the queue manager knows by their tags",
            types=_one("host_views:ManagedRegisteredClient"),
            is_observed=True,
        ),
        CategoryShape(
            category="staged_unit",
            parent="virtual_host",
            summary="messages of a data pipeline that wait, unseen, for their epoch",
            types=_one("host_views:ManagedStagedUnit"),
            is_observed=True,
        ),
        CategoryShape(
            category="connection",
            parent="virtual_host",
            summary="a client's connection",
            types=_one("host_views:ClientConnection"),
            is_observed=True,
        ),
        CategoryShape(
            category="session",
            parent="connection",
            summary="a session of a client",
            types=_one("host_views:ClientSession"),
            is_observed=True,
        ),
        CategoryShape(
            category="consumer",
            parent="session",
            summary="a receiver of messages from a queue or a subscription",
            types=_one("host_views:ClientConsumer"),
            is_observed=True,
        ),
        CategoryShape(
            category="route",
            parent="virtual_host",
            summary="takes messages from a queue and sends them elsewhere, also to other brokers",
            types={"forward": "route:ForwardRoute", "route": "route:RulesRoute"},
            default_type="forward",
        ),
        CategoryShape(
            category="receiver",
            parent="virtual_host",
            summary="a plug-in in the broker that messages of a queue or a topic are pushed to",
            types=_one("receiver:ManagedReceiver"),
            default_type="",
        ),
        CategoryShape(
            category="workflow_store",
            parent="virtual_host",
            summary="where engines keep workflows whose queues are here",
            types={"sql": "workflows:WorkflowStore"},
            default_type="sql",
        ),
        CategoryShape(
            category="workflow",
            parent="workflow_store",
            summary="a definition of a workflow, in all its versions",
            types=_one("workflows:Workflow"),
            is_observed=True,
        ),
        CategoryShape(
            category="workflow_instance",
            parent="workflow_store",
            summary="one run of a workflow: where it stands, and what a person may decide",
            types=_one("workflows:Instance"),
            is_observed=True,
        ),
        CategoryShape(
            category="port",
            parent="broker",
            summary="where clients and operators reach the broker",
            types={"stomp": "port:StompPort", "amqp": "port:AmqpPort", "http": "port:HttpPort"},
        ),
    )
}
"""By category. Objects are opened in this order, and closed in the opposite one: ports last and first. Replaced as a whole when one is added."""

_PORT: Final = "port"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_added: Final[dict[str, dict[str, type[Any]]]] = {}
_refused: Final[dict[tuple[str, str], str]] = {}
"""Why a package's category (with type "") or specialisation could not be added."""


def shape_of(category: str) -> CategoryShape:
    """Return the place of a category. Raises `UnknownCategoryError`."""
    shape = TREE.get(category)
    if shape is None:
        raise UnknownCategoryError(missing(category, tuple(TREE)))
    return shape


def missing(category: str, known: Collection[str]) -> str:
    """Return the text of the error for a category that does not exist: why a package's was refused, or those that are `known`."""
    why = _refused.get((category, ""))
    if why is not None:
        return f"the category {category!r} cannot be used: {why}"
    there_are = ", ".join(known)
    return f"there is no category {category!r}; there are: {there_are}; or install the package that brings it"


def manages_children(category: str) -> bool:
    """Return whether objects of the category store the configuration of those below them; those of an unknown category do not."""
    shape = TREE.get(category)
    return shape is not None and shape.manages_children


def children_of(category: str) -> tuple[CategoryShape, ...]:
    """Return the categories below one, in the order of the table."""
    return tuple(shape for shape in TREE.values() if shape.parent == category)


def ancestors(category: str) -> tuple[str, ...]:
    """Return the categories from the root down to, and without, one."""
    path: list[str] = []
    parent = shape_of(category).parent
    while parent is not None:
        path.append(parent)
        parent = TREE[parent].parent
    return tuple(reversed(path))


def opening_order(category: str) -> int:
    """Return a category's place in the order in which objects are opened."""
    return list(TREE).index(category) if category in TREE else len(TREE)


def types_of(category: str) -> tuple[str, ...]:
    """Return the specialisations of a category. Raises `UnknownCategoryError`."""
    return (*shape_of(category).types, *_added.get(category, ()))


def add_specialisation(category: str, name: str, implementation: type[Any]) -> None:
    """Add a plug-in's specialisation to a category. Raises `UnknownCategoryError`, `ValueError`."""
    if name in types_of(category):
        raise ValueError(f"{category} has a specialisation {name!r} already")
    if getattr(implementation, "category", None) != category:
        raise ValueError(f"{implementation.__qualname__} is no class of the category {category}")
    _added[category] = {**_added.get(category, {}), name: implementation}
    _refused.pop((category, name), None)


def add_category(shape: CategoryShape, types: Mapping[str, type[Any]]) -> None:
    """Add a plug-in's category, with the classes of its specialisations by name, "" for the only one. Raises `UnknownCategoryError`, `ValueError`.

    Its objects are opened after those of the categories of this module, but before ports, unless they are below one.
    """
    global TREE  # noqa: PLW0603 - readers on other threads iterate over the old table
    if shape.category in TREE:
        raise ValueError(f"there is a category {shape.category!r} already")
    if not _NAME.fullmatch(shape.category):
        raise ValueError(
            f"{shape.category!r} is no name of a category: small letters, digits and _, with a letter first"
        )
    if shape.parent is None:
        raise ValueError(f"the category {shape.category!r} has no parent, and only the root has none")
    above = (*ancestors(shape.parent), shape.parent)
    if not types:
        raise ValueError(f"the category {shape.category!r} has no class")
    wrong = [each.__qualname__ for each in types.values() if getattr(each, "category", None) != shape.category]
    if wrong:
        raise ValueError(f"{wrong[0]} is no class of the category {shape.category}")
    _added[shape.category] = dict(types)
    others = dict(TREE)
    ports = {} if _PORT in above else {name: others.pop(name) for name in _below(_PORT)}
    TREE = {**others, shape.category: shape, **ports}
    _refused.pop((shape.category, ""), None)


def refuse(category: str, name: str, reason: str) -> None:
    """Remember why a package's specialisation, or its category (`name` ""), cannot be used."""
    _refused[category, name] = reason


def _below(category: str) -> list[str]:
    """Return a category and all below it, in the order of the table."""
    return [each for each in TREE if each == category or category in ancestors(each)]


def class_of(category: str, name: str | None) -> tuple[str, type[Any]]:
    """Return a specialisation, `name` None: the default one, and its class. Raises `UnknownCategoryError`."""
    shape = shape_of(category)
    chosen = shape.default_type if name is None or (not name and name not in types_of(category)) else name
    known = ", ".join(repr(each) for each in types_of(category))
    if chosen is None:
        raise UnknownCategoryError(f"a {category} needs a type; there are: {known}")
    added = _added.get(category, {}).get(chosen)
    if added is not None:
        return chosen, added
    if chosen not in shape.types:
        why = _refused.get((category, chosen))
        if why is not None:
            raise UnknownCategoryError(f"{category} of the type {chosen!r} cannot be used: {why}")
        if not any(types_of(category)):
            raise UnknownCategoryError(f"a {category} has no types; leave type out")
        raise UnknownCategoryError(
            f"there is no {category} of the type {chosen!r}; there are: {known}; or install the package that brings it"
        )
    module, _, name_of_class = shape.types[chosen].partition(":")
    found: type[Any] = getattr(import_module(f"{_MODEL}.{module}"), name_of_class)
    return chosen, found


def picture() -> str:
    """Return the tree as a text, for people."""
    return "\n".join(_lines(TREE[ROOT], "", ""))


def _lines(shape: CategoryShape, first: str, others: str) -> Iterator[str]:
    types = ", ".join(name for name in types_of(shape.category) if name)
    notes = [f"({types})"] if types else []
    notes += ["[keeps what is below it]"] if shape.manages_children else []
    notes += ["[observed]"] if shape.is_observed else []
    yield " ".join([f"{first}{shape.category}", *notes])
    below = children_of(shape.category)
    for child in below:
        is_last = child is below[-1]
        yield from _lines(child, f"{others}{'└─ ' if is_last else '├─ '}", f"{others}{'   ' if is_last else '│  '}")
