"""Statistics and operations of managed objects, declared where they are implemented.

A statistic is a property that any thread may read. An operation is a method whose parameters have types; each is described by
``Annotated[int, Field(description=…)]``. An operation that may take long has a parameter `progress`; one that notes its caller
has a parameter `by`; one that tells of other objects than its own has a parameter `permissions`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final, Generic, Protocol, Self, TypeVar, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from pyjms_provider.model.attributes import problems_of
from pyjms_provider.model.errors import InvalidArgumentsError
from pyjms_provider.security.contracts import Operation, TargetKind

_F = TypeVar("_F", bound=Callable[..., Any])
_MARK: Final = "__pyjms_operation__"
_PROGRESS: Final = "progress"
_PERMISSIONS: Final = "permissions"
KEPT_QUIET: Final = "x-kept-quiet"
"""Marks a parameter whose values are never logged: `Field(json_schema_extra={KEPT_QUIET: True})`."""
WRITES_TO: Final = "x-writes-to"
"""Marks, in the schema of an argument, that it names a sibling object of that category, which is written to."""
_INJECTED: Final = ("by", _PROGRESS, _PERMISSIONS)


class Progress(Protocol):
    """The callback for the progress of a long operation."""

    def __call__(self, done: int, total: int | None) -> bool:
        """Report that `done` of `total` (None: unknown) is done; return False to stop the operation."""
        ...


def _continue(done: int, total: int | None) -> bool:  # noqa: ARG001 - it is called as any other
    return True


NO_PROGRESS: Final[Progress] = _continue
"""Ignores the progress, and never stops the operation."""


class Permissions(Protocol):
    """Decides what the caller of an operation may do."""

    def __call__(
        self, operation: Operation, kind: TargetKind, virtual_host: str, names: Sequence[str]
    ) -> Sequence[str]:
        """Return those of `names` on whose targets the operation is allowed, in their order."""
        ...


def _all_of_them(
    operation: Operation,  # noqa: ARG001 - it is called as any other
    kind: TargetKind,  # noqa: ARG001
    virtual_host: str,  # noqa: ARG001
    names: Sequence[str],
) -> Sequence[str]:
    return names


EVERYTHING: Final[Permissions] = _all_of_them
"""The permissions of clients in this process: they could read everything by plain calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDeclaration:
    """The declaration of an operation."""

    name: str
    description: str
    needs: Operation
    """The right that its caller needs on the object."""
    changes: bool
    """Whether it changes anything; one that only reads may be repeated."""
    is_long: bool
    """Whether it reports progress, and can be stopped half way."""
    parameters: Mapping[str, Any]
    """A JSON schema of the arguments, an object."""
    result: Mapping[str, Any]
    """A JSON schema of the result."""
    arguments_type: type[BaseModel]
    result_type: TypeAdapter[Any]
    injected: tuple[str, ...]
    """The parameters that are not the caller's: `by`, the user; `progress`; and `permissions`, the user's rights."""

    def read_arguments(self, where: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert plain values to the types of the method's parameters. Raises `InvalidArgumentsError`."""
        try:
            read = self.arguments_type.model_validate(dict(arguments))
        except ValidationError as error:
            # The values are not in the error: an argument may be a password or a message.
            raise InvalidArgumentsError(f"{self.name} of {where}", problems_of(error)) from error
        # The attributes and not `model_dump`, which would turn structured arguments back into dictionaries.
        return {name: getattr(read, name) for name in type(read).model_fields}

    def plain_result(self, result: Any) -> Any:
        """Return a result as JSON."""
        return self.result_type.dump_python(result, mode="json")


def operation(description: str, *, needs: Operation = Operation.ADMINISTER, changes: bool = True) -> Callable[[_F], _F]:
    """Declare the method below as an operation."""

    def declare(method: _F) -> _F:
        setattr(method, _MARK, {"description": description, "needs": needs, "changes": changes})
        return method

    return declare


def operations_of(category: type) -> Mapping[str, OperationDeclaration]:
    """Return the operations of a class of managed objects by name, in the order of declaration, inherited ones first."""
    if category in _known_operations:
        return _known_operations[category]
    # A dictionary keeps the order of declaration, and drops names that a subclass repeats.
    names = {name: None for base in reversed(category.__mro__) for name in tuple(vars(base))}
    found: dict[str, OperationDeclaration] = {}
    for name in names:
        method = getattr(category, name)
        # The mark of the nearest base: a method that is overridden without the decorator is still the operation.
        mark = next((vars(base)[name].__dict__[_MARK] for base in category.__mro__ if _is_marked(base, name)), None)
        # A subclass may have replaced an operation by something that is none.
        if mark is not None and callable(method):
            found[name] = _declaration(name, method, mark)
    # Two threads may compute it at once; both then use the first one that was stored.
    return _known_operations.setdefault(category, found)


_known_operations: Final[dict[type, Mapping[str, OperationDeclaration]]] = {}


def _is_marked(base: type, name: str) -> bool:
    return _MARK in getattr(vars(base).get(name), "__dict__", {})


def _declaration(name: str, method: Callable[..., Any], mark: Mapping[str, Any]) -> OperationDeclaration:
    # With extras: the description of a parameter stands in its annotation.
    hints = get_type_hints(method, include_extras=True)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    fields: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is inspect.Parameter.empty else each.default)
        for each in parameters
        if each.name not in _INJECTED
    }
    arguments = create_model(
        f"{name}_arguments", __config__=ConfigDict(extra="forbid", hide_input_in_errors=True), **fields
    )
    result: TypeAdapter[Any] = TypeAdapter(hints["return"])
    return OperationDeclaration(
        name=name,
        **mark,
        is_long=any(each.name == _PROGRESS for each in parameters),
        parameters=arguments.model_json_schema(),
        result=result.json_schema(mode="serialization"),
        arguments_type=arguments,
        result_type=result,
        injected=tuple(each.name for each in parameters if each.name in _INJECTED),
    )


_T = TypeVar("_T")


class StatisticKind(Enum):
    """The kind of a statistic."""

    GAUGE = "gauge"
    """It goes up and down, or is a text or a time."""
    COUNTER = "counter"
    """It grows as long as the object lives."""
    RATE = "rate"
    """A recent rate per second."""


class Statistic(Generic[_T]):
    """A property of a managed object that is a statistic, with its declaration."""

    name: str

    def __init__(
        self, compute: Callable[[Any], _T], description: str, unit: str | None, kind: StatisticKind, is_costly: bool
    ) -> None:
        """`is_costly`: it takes long for a large object, so lists leave it out unless it is asked for by name."""
        self.compute = compute
        self.description = description
        self.unit = unit
        self.kind = kind
        self.is_costly = is_costly
        self.__doc__ = description

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its values."""
        adapter: TypeAdapter[Any] = TypeAdapter(get_type_hints(self.compute, include_extras=True)["return"])
        return adapter.json_schema(mode="serialization")

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type) -> _T: ...

    def __get__(self, owner: object | None, kind: type) -> Self | _T:
        """Compute it."""
        return self if owner is None else self.compute(owner)


def statistic(
    description: str,
    *,
    unit: str | None = None,
    kind: StatisticKind = StatisticKind.GAUGE,
    costly: bool = False,
) -> Callable[[Callable[[Any], _T]], Statistic[_T]]:
    """Declare the method below as a statistic: a property that any thread may read at any time."""

    def declare(compute: Callable[[Any], _T]) -> Statistic[_T]:
        return Statistic(compute, description, unit, kind, costly)

    return declare


def statistics_of(category: type) -> Mapping[str, Statistic[Any]]:
    """Return the statistics of a class of managed objects by name, in the order of declaration, inherited ones first."""
    if category not in _known_statistics:
        _known_statistics[category] = {
            name: each
            for base in reversed(category.__mro__)
            # Of a tuple: Python adds to a class when another thread asks for its annotations.
            for name, each in tuple(vars(base).items())
            if isinstance(each, Statistic) and getattr(category, name) is each
        }
    return _known_statistics[category]


_known_statistics: Final[dict[type, Mapping[str, Statistic[Any]]]] = {}
