"""Requests of the OASIS working draft "AMQP Management Version 1.0" on plain values: the model's categories are entity types.

The type of the objects of a category is ``org.pyjms.queue``; a category with several types has one for each below it:
``org.pyjms.port.amqp`` extends ``org.pyjms.port``. The name of an entity has the names of its address, with slashes between them; a slash in a
name is ``%2F``, as in the addresses of REST.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote
from uuid import UUID

from pyjms_provider.management.describing import FACTS, LIMIT_MAX, ListRequest, known_fields
from pyjms_provider.management.errors import BadRequestError
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import declarations
from pyjms_provider.model.errors import UnknownCategoryError, UnknownObjectError, UnknownOperationError
from pyjms_provider.model.managed import OFFSET_MAX
from pyjms_provider.model.operations import operations_of, statistics_of

if TYPE_CHECKING:
    from pyjms_provider.management.scope import Scope
    from pyjms_provider.model.managed import ManagedObject

NODE_TYPE: Final = "org.amqp.management"
"""The type of the management node itself."""
PREFIX: Final = "org.pyjms."
QUERY_MAX: Final = 10_000
"""Entities of one answer to QUERY: a client asks for more by `offset` and `count`."""
_FORCE: Final = "force"
_ACTUAL: Final = "actual"
_RESERVED: Final = frozenset({"operation", "type", "name", "identity", "locales"})
"""Properties of a request that are no arguments of an operation."""
_CRUD: Final = ("CREATE", "READ", "UPDATE", "DELETE")
_NAMING: Final = ("identity", "name", "type")
_FACTS: Final = (*_NAMING, *sorted(FACTS - {"id", "name", "type"}))


@dataclass(frozen=True, slots=True)
class EntityAnswer:
    """The answer to a request."""

    status: HTTPStatus
    body: Any
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Application properties beside status and description."""


@dataclass(frozen=True, slots=True)
class _EntityType:
    """A category, or one of its types."""

    category: str
    kind: str | None = None
    """None: the category, which the others extend."""

    @property
    def name(self) -> str:
        return PREFIX + self.category + ("" if self.kind is None else f".{self.kind}")

    @property
    def extends(self) -> list[str]:
        return [] if self.kind is None else [PREFIX + self.category]

    @property
    def classes(self) -> list[type[ManagedObject]]:
        kinds = tree.types_of(self.category) if self.kind is None else (self.kind,)
        return list(dict.fromkeys(tree.class_of(self.category, each)[1] for each in kinds))

    def attributes(self, *, with_costly: bool = True) -> list[str]:
        """Return the attributes that all its entities have. `with_costly`: those too that take long to find out."""
        found = [
            [
                *declarations(each.attributes_class),
                *(name for name, statistic in statistics_of(each).items() if with_costly or not statistic.is_costly),
            ]
            for each in self.classes
        ]
        own = [each for each in found[0] if all(each in others for others in found)]
        return list(dict.fromkeys((*_FACTS, *own)))

    @property
    def operations(self) -> dict[str, list[str]]:
        """The operations that all its entities have, with the names of their arguments."""
        crud = ("READ",) if tree.shape_of(self.category).is_observed else _CRUD
        found: dict[str, list[str]] = {each: [] for each in crud}
        first, *others = [operations_of(each) for each in self.classes]
        for name, declared in first.items():
            if all(name in other for other in others):
                found[name] = list(declared.parameters.get("properties", {}))
        return found


def _types_of(category: str) -> Iterator[_EntityType]:
    """Yield the types of a category: its own first."""
    yield _EntityType(category)
    yield from (_EntityType(category, each) for each in tree.types_of(category) if each)


class EntityRequest:
    """One request of a client. All calls raise the errors of the management service, and `BadRequestError`."""

    def __init__(self, scope: Scope, properties: Mapping[str, Any], body: Any) -> None:
        """`properties`: the application properties of the request; `body`: a map, or None."""
        self._scope = scope
        self._properties = properties
        self._body = body

    def run(self) -> EntityAnswer:
        """Do what is asked for."""
        operation, type_name = self._text("operation"), self._text("type")
        if not operation or not type_name:
            raise BadRequestError("a request has the application properties operation and type, which are texts")
        if type_name == NODE_TYPE:
            if operation not in NODE_OPERATIONS:
                there_are = ", ".join(NODE_OPERATIONS)
                raise UnknownOperationError(
                    f"there is no operation {operation[:40]!r} of this node; there are: {there_are}"
                )
            return NODE_OPERATIONS[operation](self)
        entity_type = self._type(type_name)
        if operation in _ENTITY_OPERATIONS:
            if operation not in entity_type.operations:
                raise UnknownOperationError(
                    f"{operation} is no operation of {entity_type.name}: its entities come by themselves"
                )
            return _ENTITY_OPERATIONS[operation](self, entity_type)
        return self._invoke(entity_type, operation)

    # The management node

    def get_types(self) -> EntityAnswer:
        """Return the types, and which ones they extend."""
        return _ok({each.name: each.extends for each in self._wanted_types()})

    def get_annotations(self) -> EntityAnswer:
        """Return the annotations of each type: there are none."""
        return _ok({each.name: [] for each in self._wanted_types()})

    def get_attributes(self) -> EntityAnswer:
        """Return the names of each type's attributes."""
        return _ok({each.name: each.attributes() for each in self._wanted_types()})

    def get_operations(self) -> EntityAnswer:
        """Return the operations of each type, and their arguments."""
        return _ok({each.name: each.operations for each in self._wanted_types()})

    def get_nodes(self) -> EntityAnswer:
        """Return the addresses of other management nodes: there are none in a virtual host."""
        return _ok([])

    def query(self) -> EntityAnswer:
        """Return attributes of many entities, as rows."""
        given = self._map().get("attributeNames") or []
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise BadRequestError("attributeNames in the body is a list of texts")
        wanted = self._text("entityType")
        entity_type = self._type(wanted) if wanted else None
        offset, count = self._number("offset") or 0, self._number("count")
        if count is not None and count > QUERY_MAX:
            raise BadRequestError(f"an answer has at most {QUERY_MAX} entities: count is too large")
        categories = [entity_type.category] if entity_type else self._categories()
        found = self._found(categories, entity_type, given, offset, count)
        names = given or _all_attributes(entity_type, categories)
        rows = [[each.get(name) for name in names] for each in found]
        return EntityAnswer(HTTPStatus.OK, {"attributeNames": names, "results": rows}, {"count": len(rows)})

    def _found(
        self,
        categories: Sequence[str],
        entity_type: _EntityType | None,
        names: Sequence[str],
        offset: int,
        count: int | None,
    ) -> list[dict[str, Any]]:
        """Return entities, page by page: those of one category after those of another."""
        scope = self._scope
        kind = None if entity_type is None else entity_type.kind
        condition = None if kind is None else "type = '{}'".format(kind.replace("'", "''"))
        most = QUERY_MAX if count is None else count
        found: list[dict[str, Any]] = []
        for category in categories:
            fields = _fields(category, names, is_only=entity_type is not None)
            is_last = False
            while not is_last and len(found) < most:
                limit = min(LIMIT_MAX, most - len(found))
                page = scope.management.list(
                    scope.caller,
                    category,
                    scope.names,
                    ListRequest(fields=fields, condition=condition, offset=offset, limit=limit),
                )
                found += [self._entity(category, each) for each in page.items]
                is_last = offset + limit >= page.total
                if not is_last and count is None and len(found) >= QUERY_MAX:
                    raise BadRequestError(f"there are more than {QUERY_MAX} entities: ask with offset and count")
                offset = max(offset - page.total, 0) if is_last else offset + limit
        return found

    def _wanted_types(self) -> list[_EntityType]:
        wanted = self._text("entityType")
        if not wanted:
            return [each for category in self._categories() for each in _types_of(category)]
        entity_type = self._type(wanted)
        return [entity_type] if entity_type.kind is not None else list(_types_of(entity_type.category))

    def _categories(self) -> list[str]:
        return [each for each in tree.TREE if self._scope.has(each)]

    # Entities

    def create(self, entity_type: _EntityType) -> EntityAnswer:
        """Create an entity; the body has its attributes."""
        attributes = self._map()
        said = attributes.pop("name", None)
        name = self._text("name") or said
        if not isinstance(name, str) or not name or said not in (None, name):
            raise BadRequestError("the application property name has the name of the entity to create")
        self._drop_type(entity_type, attributes)
        if entity_type.kind is not None:
            attributes["type"] = entity_type.kind
        *above, own = _split(name)
        scope = self._scope
        created = scope.management.create(
            scope.caller, entity_type.category, (*scope.names, *above), {**attributes, "name": own}
        )
        return EntityAnswer(HTTPStatus.CREATED, self._described(created))

    def read(self, entity_type: _EntityType) -> EntityAnswer:
        """Return the attributes of an entity."""
        return _ok(self._described(self._object(entity_type), is_actual=self._flag(_ACTUAL)))

    def update(self, entity_type: _EntityType) -> EntityAnswer:
        """Change attributes of an entity; null: the default again."""
        managed, changes = self._object(entity_type), self._map()
        self._drop_type(entity_type, changes)
        known = {"identity": str(managed.id), "name": self._name(managed)}
        for each, value in known.items():
            if changes.pop(each, value) != value:
                raise BadRequestError(f"the {each} of an entity does not change")
        scope = self._scope
        scope.management.change(scope.caller, managed, changes, force=self._flag(_FORCE))
        return _ok(self._described(managed))

    def delete(self, entity_type: _EntityType) -> EntityAnswer:
        """Delete an entity."""
        self._scope.management.delete(self._scope.caller, self._object(entity_type))
        return EntityAnswer(HTTPStatus.NO_CONTENT, {})

    def _invoke(self, entity_type: _EntityType, operation: str) -> EntityAnswer:
        """Run an operation; its arguments are in the application properties, or in the body, where they may be maps and lists."""
        managed = self._object(entity_type)
        given = {name: value for name, value in self._properties.items() if name not in _RESERVED and name[:3] != "JMS"}
        scope = self._scope
        return _ok(scope.management.invoke(scope.caller, managed, operation, {**given, **self._map()}))

    def _object(self, entity_type: _EntityType) -> ManagedObject:
        """Return the entity that `name` or `identity` says."""
        scope, category = self._scope, entity_type.category
        identity, name = self._text("identity"), self._text("name")
        if (identity is None) == (name is None):
            raise BadRequestError("either name or identity says which entity is meant")
        if identity is not None:
            try:
                object_id = UUID(identity)
            except ValueError:
                raise BadRequestError("identity is no UUID") from None
            found = scope.find_by_id(category, object_id)
        else:
            assert name is not None
            is_single = not scope.names_below(category)
            found = scope.find(category, () if is_single else _split(name))
            if is_single and name != self._name(found):
                raise UnknownObjectError(f"there is no {category} {name[:80]!r} here")
        if entity_type.kind not in (None, found.type):
            raise UnknownObjectError(f"{found.path} is of the type {found.type}, and not {entity_type.kind}")
        return found

    def _drop_type(self, entity_type: _EntityType, attributes: dict[str, Any]) -> None:
        # A client may send back what it has read.
        said = attributes.pop("type", None)
        if said not in (None, entity_type.name):
            raise BadRequestError(f"the type in the body is not that of the request, {entity_type.name}")

    # Entities as the draft has them

    def _described(self, managed: ManagedObject, *, is_actual: bool = False) -> dict[str, Any]:
        return self._entity(managed.category, self._scope.management.describe(managed, actual=is_actual))

    def _entity(self, category: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of an entity, for the fields of its object, which have `names`, `type` and `id`."""
        found = dict(fields)
        kind = found.pop("type")
        return {
            **found,
            "identity": found.pop("id"),
            "name": self._joined(category, fields["names"], found["name"]),
            "type": _EntityType(category, kind or None).name,
        }

    def _name(self, managed: ManagedObject) -> str:
        return self._joined(managed.category, managed.names, managed.name)

    def _joined(self, category: str, names: Sequence[str], own: str) -> str:
        # The broker, and the virtual host whose queue this is, have no names in an address here.
        below = names[len(self._scope.names) :] if self._scope.names_below(category) else [own]
        return "/".join([each.replace("%", "%25").replace("/", "%2F") for each in below])

    # The request

    def _type(self, name: str) -> _EntityType:
        category, _, kind = name.removeprefix(PREFIX).partition(".")
        if not name.startswith(PREFIX):
            raise UnknownCategoryError(f"there is no type {name[:80]!r}; GET-TYPES lists those that there are")
        self._scope.check(category)
        if kind:
            tree.class_of(category, kind)  # raises for an unknown type
        return _EntityType(category, kind or None)

    def _map(self) -> dict[str, Any]:
        if self._body is None:
            return {}
        if not isinstance(self._body, dict):
            raise BadRequestError("the body of this request is a map")
        return dict(self._body)

    def _text(self, name: str) -> str | None:
        value = self._properties.get(name)
        if value is not None and not isinstance(value, str):
            raise BadRequestError(f"the application property {name} is a text")
        return value

    def _number(self, name: str) -> int | None:
        value = self._properties.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= OFFSET_MAX:
            raise BadRequestError(f"the application property {name} is a number, from 0 to {OFFSET_MAX}")
        return int(value)

    def _flag(self, name: str) -> bool:
        value = self._properties.get(name, False)
        if not isinstance(value, bool):
            raise BadRequestError(f"the application property {name} is true or false")
        return value


def _ok(body: Any) -> EntityAnswer:
    return EntityAnswer(HTTPStatus.OK, body)


def _split(name: str) -> list[str]:
    return [unquote(each) for each in name.split("/")]


def _fields(category: str, names: Sequence[str], *, is_only: bool) -> tuple[str, ...] | None:
    """Return the fields of objects that attributes of entities need; None: all cheap ones.

    `is_only`: an attribute that the category does not have is an error.
    """
    if not names:
        return None
    known = known_fields(category)
    fields = ["id" if each == "identity" else each for each in names]
    return ("id", "name", "names", "type", *(each for each in fields if is_only or each in known))


def _all_attributes(entity_type: _EntityType | None, categories: Sequence[str]) -> list[str]:
    types = [entity_type] if entity_type else [each for category in categories for each in _types_of(category)]
    return list(dict.fromkeys(name for each in types for name in each.attributes(with_costly=False)))


NODE_OPERATIONS: Final[Mapping[str, Callable[[EntityRequest], EntityAnswer]]] = {
    "QUERY": EntityRequest.query,
    "GET-TYPES": EntityRequest.get_types,
    "GET-ANNOTATIONS": EntityRequest.get_annotations,
    "GET-ATTRIBUTES": EntityRequest.get_attributes,
    "GET-OPERATIONS": EntityRequest.get_operations,
    "GET-MGMT-NODES": EntityRequest.get_nodes,
}
"""The operations of the node itself. REGISTER and DEREGISTER, which are optional, would name nodes elsewhere."""
_ENTITY_OPERATIONS: Final[Mapping[str, Callable[[EntityRequest, _EntityType], EntityAnswer]]] = {
    "CREATE": EntityRequest.create,
    "READ": EntityRequest.read,
    "UPDATE": EntityRequest.update,
    "DELETE": EntityRequest.delete,
}
