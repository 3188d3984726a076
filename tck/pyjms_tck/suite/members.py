"""Checks of objects against the API as data: each type's members under the Java and the Python name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pyjms
from pyjms_tck.checks import Checks, Raised, attempt
from pyjms_tck.vectors import load


def types(data: str = "api") -> dict[str, Any]:
    """Return all types of the API by name; those of the file `data`, which is ``api-2`` for what JMS 2.0 added."""
    return {type["name"]: type for type in load(data)}


def members_of(name: str, data: str = "api") -> Iterator[Any]:
    """Yield the members of a type: its own and those that it inherits."""
    found = types(data)
    if name in found:
        yield from found[name].get("methods", ())
        for base in found[name]["extends"]:
            yield from members_of(base, data)


def check_objects(data: str = "api", /, **objects: Any) -> None:
    """Check objects, each given by the name of its type: ``check_objects(Session=session)``."""
    with Checks() as check:
        for name, object in objects.items():
            check.same(f"whether the object is a {name}", isinstance(object, getattr(pyjms, name)), True)
            check_members(check, name, object, data)


def check_members(check: Checks, name: str, object: Any, data: str = "api") -> None:
    """Check that `object` has each member of the type `name`."""
    for member in members_of(name, data):
        java, python = member["java"], member["python"]
        # Looked up without being called: some properties raise where there is nothing to give.
        missing = [each for each in (java, python) if inspect.getattr_static(object, each, None) is None]
        check.same(f"names that {name} lacks of {java} and {python}", missing, [])
        if not missing:
            _CHECKS[member["kind"]](check, name, object, member)


def _check_method(check: Checks, name: str, object: Any, member: Any) -> None:
    java, python = member["java"], member["python"]
    check.same(
        f"whether {name}.{java} and {python} are the same", getattr(object, java) == getattr(object, python), True
    )
    signature = inspect.signature(getattr(object, python))
    for parameters in member["overloads"]:
        given = ", ".join(parameters)
        # Bound to the signature, not called: most methods would have an effect.
        named = dict.fromkeys(parameters)
        check.same(f"whether {name}.{python} takes ({given}) in this order", _fits(signature, *named), True)
        check.same(f"whether {name}.{python} takes ({given}) by name", _fits(signature, **named), True)


def _fits(signature: inspect.Signature, *arguments: Any, **named: Any) -> bool:
    try:
        signature.bind(*arguments, **named)
    except TypeError:
        return False
    return True


def _check_getter(check: Checks, name: str, object: Any, member: Any) -> None:
    java, python = member["java"], member["python"]
    check.same(f"whether {name}.{java} takes no arguments", _fits(inspect.signature(getattr(object, java))), True)
    check.same(f"whether {name}.{python} is a property", callable(inspect.getattr_static(object, python)), False)
    # Both names are asked, as a property and a method may be two pieces of code.
    results = _outcome(object, java, called=True), _outcome(object, python, called=False)
    check.same(f"what {name}.{java}() and {name}.{python} give", results[0], results[1])


def _outcome(object: Any, name: str, *, called: bool) -> str:
    """Return the result of a getter, or the class of an incomparable result or an exception: some have nothing to
    return.
    """
    value = attempt(getattr(object, name)) if called else attempt(getattr, object, name)
    # Objects are compared by their class: two calls may return two objects.
    if isinstance(value, str | int):
        return repr(value)
    return type(value.error if isinstance(value, Raised) else value).__name__


def _check_setter(check: Checks, name: str, object: Any, member: Any) -> None:
    java, python = member["java"], member["python"]
    check.same(f"whether {name}.{java} takes a value", _fits(inspect.signature(getattr(object, java)), None), True)
    found = inspect.getattr_static(object, python)
    writable = found.fset is not None if isinstance(found, property) else hasattr(found, "__set__")
    check.same(f"whether {name}.{python} can be set", writable, True)


_CHECKS = {"method": _check_method, "getter": _check_getter, "setter": _check_setter}
