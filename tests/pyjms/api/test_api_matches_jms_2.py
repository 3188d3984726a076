"""Each type, member, overload, constant and constructor that JMS 2.0 has added is there, on the interfaces and on what implements them."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import pyjms
from pyjms.runtime import xa as _loaded  # noqa: F401 - the classes of XA are found once they are imported
from tests.pyjms.api.real_objects import concrete_classes
from tests.pyjms.api.specification import accepts

_FILE = Path(__file__).resolve().parents[2] / "data" / "spec" / "jms20-api.json"
# Annotations are for containers of Java EE.
TYPES: list[dict[str, Any]] = [
    each for each in json.loads(_FILE.read_text(encoding="utf-8"))["types"] if each["kind"] != "annotation"
]
JAVA_BASES = {"AutoCloseable": "close", "RuntimeException": "__cause__"}
"""Types of java.lang, each with a member that stands for it."""
RENAMED = {"async": "async_"}
"""Names that Python reserves."""
IMPLEMENTED_BY_APPLICATIONS = {"CompletionListener"}
FLUENT = "JMSProducer"

EVERY_TYPE = pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_["name"])
EVERY_EXCEPTION = pytest.mark.parametrize(
    "type_", [each for each in TYPES if each["kind"] == "exception"], ids=lambda type_: type_["name"]
)


def classes_of(type_: dict[str, Any]) -> list[type]:
    """Return the interface, and all classes that implement it."""
    found = getattr(pyjms, type_["name"])
    implementing = concrete_classes(type_["name"]) if type_["kind"] == "interface" else []
    assert implementing or type_["kind"] == "exception" or type_["name"] in IMPLEMENTED_BY_APPLICATIONS
    return [found, *implementing]


@EVERY_TYPE
def test_the_type_exists_and_extends_what_it_should(type_: dict[str, Any]) -> None:
    found = getattr(pyjms, type_["name"])
    assert inspect.isclass(found)
    for base in type_.get("extends") or type_.get("extends_added", ()):
        if base in JAVA_BASES:
            assert hasattr(found, JAVA_BASES[base])
        else:
            assert issubclass(found, getattr(pyjms, base))


@EVERY_TYPE
def test_each_method_has_both_names_and_takes_each_overload(type_: dict[str, Any]) -> None:
    for found in classes_of(type_):
        for method in type_["methods"]:
            java = getattr(found, method["java"])
            for overload in method["overloads"]:
                names = tuple(each["py"] for each in overload["params"])
                assert accepts(java, names), f"{found}.{method['java']}{names}"
            python = method["python"]
            if python["kind"] != "property":
                assert getattr(found, python["name"]) is java


@EVERY_TYPE
def test_each_property_is_read_and_written_by_its_java_names(type_: dict[str, Any]) -> None:
    for found in classes_of(type_):
        for wanted in type_["properties"]:
            name = RENAMED.get(wanted["name"], wanted["name"])
            prop = inspect.getattr_static(found, name)
            assert isinstance(prop, property), f"{found}.{name}"
            if type_["name"] == FLUENT:  # whose setters return the producer
                assert (wanted["setter"] is None) == (prop.fset is None)
                continue
            assert getattr(found, wanted["getter"]) is prop.fget
            assert (getattr(found, wanted["setter"]) if wanted["setter"] else None) is prop.fset


@EVERY_TYPE
def test_each_constant_has_the_value_of_java(type_: dict[str, Any]) -> None:
    found = getattr(pyjms, type_["name"])
    for constant in type_["constants"]:
        assert getattr(found, constant["name"]) == constant["value"]


@EVERY_EXCEPTION
def test_each_exception_has_the_constructors_of_java(type_: dict[str, Any]) -> None:
    found = getattr(pyjms, type_["name"])
    for constructor in type_["constructors"]:
        names = [each["py"] for each in constructor["params"]]
        cause = ValueError("the cause")
        values = [cause if name in {"cause", "linked_exception"} else name for name in names]
        for error in (found(*values), found(**dict(zip(names, values, strict=True)))):
            assert str(error) == names[0]
            assert error.error_code == error.getErrorCode() == ("error_code" if "error_code" in names else None)
            assert (error.__cause__ is cause) == (cause in values)
