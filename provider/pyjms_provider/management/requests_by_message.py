"""What a management message asks for, read from its JSON and done at the desk: discover, look, create, change, delete, invoke."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyjms_provider.management.errors import BadRequestError
from pyjms_provider.management.listing import ListRequest
from pyjms_provider.management.model_description import describe_model
from pyjms_provider.model import tree
from pyjms_provider.model.errors import UnknownCategoryError, UnknownObjectError

if TYPE_CHECKING:
    from pyjms_provider.management.desk import Caller, Desk
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["ACTIONS", "MessageRequest"]

_HOST: Final = "virtual_host"
_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "action": (str, "a text"),
    "category": (str, "a text"),
    "names": (list, "a list of texts"),
    "id": (str, "a UUID"),
    "attributes": (dict, "an object"),
    "operation": (str, "a text"),
    "arguments": (dict, "an object"),
    "fields": (list, "a list of texts"),
    "actual": (bool, "true or false"),
    "force": (bool, "true or false"),
    "filter": (str, "a text"),
    "sort": (list, "a list of texts"),
    "offset": (int, "a number"),
    "limit": (int, "a number"),
}


class MessageRequest:
    """One request. All calls raise what the desk raises, and `BadRequestError`."""

    def __init__(self, desk: Desk, caller: Caller, scope: tuple[str, ...], data: Any) -> None:
        """`scope`: the names of the virtual host that names are relative to; none: the broker."""
        self._desk = desk
        self._caller = caller
        self._scope = scope
        self._data = _checked(data)

    def run(self) -> Any:
        """Do what is asked for, and return the result as JSON has it."""
        action = str(self._data.get("action", ""))
        if action not in ACTIONS:
            raise BadRequestError(f"there is no action {action[:40]!r}; there are: {', '.join(ACTIONS)}")
        return ACTIONS[action](self)

    def discover(self) -> Any:
        """Return the categories that can be asked about, as data."""
        model = describe_model()
        model["categories"] = [each for each in model["categories"] if self._is_here(each["category"])]
        return model

    def list(self) -> Any:
        """Return a page of objects."""
        data = self._data
        fields = data.get("fields")
        wanted = ListRequest(
            fields=None if fields is None else tuple(fields),
            actual=data.get("actual", False),
            condition=data.get("filter"),
            order=tuple(data.get("sort", ())),
            offset=data.get("offset", 0),
            limit=data.get("limit", 100),
        )
        page = self._desk.list(self._caller, self._category(), self._names(), wanted)
        return {"items": list(page.items), "total": page.total, "offset": page.offset}

    def get(self) -> Any:
        """Return one object."""
        return self._desk.describe(self._object(), self._data.get("fields"), actual=self._data.get("actual", False))

    def create(self) -> Any:
        """Create an object; the names are those of its parent."""
        attributes = self._data.get("attributes", {})
        return self._desk.describe(self._desk.create(self._caller, self._category(), self._names(), attributes))

    def change(self) -> Any:
        """Change attributes of an object."""
        managed = self._object()
        attributes, force = self._data.get("attributes", {}), self._data.get("force", False)
        self._desk.change(self._caller, managed, attributes, force=force)
        return self._desk.describe(managed)

    def delete(self) -> Any:
        """Delete an object."""
        self._desk.delete(self._caller, self._object())

    def invoke(self) -> Any:
        """Ask an object for one of its operations."""
        name, arguments = self._data.get("operation", ""), self._data.get("arguments", {})
        return self._desk.invoke(self._caller, self._object(), name, arguments)

    def _category(self) -> str:
        category = self._data.get("category")
        if category is None:
            raise BadRequestError("name the category that it is about")
        tree.shape_of(category)  # raises for what is none
        if not self._is_here(category):
            raise UnknownCategoryError(
                f"there is no {category} below {'a virtual host' if self._scope else 'the broker'}"
            )
        return str(category)

    def _is_here(self, category: str) -> bool:
        return category != tree.ROOT and (not self._scope or category == _HOST or _HOST in tree.ancestors(category))

    def _names(self) -> tuple[str, ...]:
        return (*self._scope, *self._data.get("names", ()))

    def _object(self) -> ManagedObject:
        category, wanted = self._category(), self._data.get("id")
        if wanted is None:
            return self._desk.find(self._caller, category, self._names())
        try:
            object_id = UUID(wanted)
        except ValueError:
            raise BadRequestError("id is no UUID") from None
        found = self._desk.find_by_id(self._caller, category, object_id)
        if found.names[: len(self._scope)] != self._scope:
            raise UnknownObjectError(f"there is no {category} with the id {object_id} here")
        return found


ACTIONS: Final[Mapping[str, Callable[[MessageRequest], Any]]] = {
    "discover": MessageRequest.discover,
    "list": MessageRequest.list,
    "get": MessageRequest.get,
    "create": MessageRequest.create,
    "change": MessageRequest.change,
    "delete": MessageRequest.delete,
    "invoke": MessageRequest.invoke,
}
"""What can be asked for."""


def _checked(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise BadRequestError("the body is a JSON object: {…}")
    for name, value in data.items():
        kind, text = _TYPES.get(name, (None, ""))
        if kind is None:
            raise BadRequestError(f"there is no word {name[:40]!r} here; there are: {', '.join(_TYPES)}")
        is_right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if is_right and kind is list:
            is_right = all(isinstance(each, str) for each in value)
        if not is_right:
            raise BadRequestError(f"{name} is {text}")
    return data
