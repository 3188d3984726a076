"""Each type, member, overload, constant and constructor of JMS 1.1 is there, on the interfaces and on real objects."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import pyjms
from tests.pyjms.api.real_objects import IMPLEMENTED_BY_APPLICATIONS, RealObjects, concrete_classes
from tests.pyjms.api.specification import JAVA_EXCEPTIONS, TYPES, Type, accepts, lineage

EVERY_TYPE = pytest.mark.parametrize("type_", TYPES.values(), ids=TYPES)
EXCEPTIONS = [type_ for type_ in TYPES.values() if type_.kind == "exception"]
INTERFACES = [type_ for type_ in TYPES.values() if type_.kind == "interface"]
EVERY_INTERFACE = pytest.mark.parametrize("type_", INTERFACES, ids=lambda type_: type_.name)
IMPLEMENTED = [type_ for type_ in TYPES.values() if type_.name not in {*IMPLEMENTED_BY_APPLICATIONS, "DeliveryMode"}]
EVERY_IMPLEMENTED = pytest.mark.parametrize(
    "type_", [type_ for type_ in IMPLEMENTED if type_.kind != "exception"], ids=lambda type_: type_.name
)
# What a provider may lack: it then says so when the connection is made.
IN_DOUBT = [type_ for type_ in IMPLEMENTED if type_.name.startswith("XA") and not type_.name.endswith("Factory")]
EVERY_REAL_ONE = pytest.mark.parametrize(
    "type_",
    [type_ for type_ in IMPLEMENTED if type_.kind != "exception" and type_ not in IN_DOUBT],
    ids=lambda type_: type_.name,
)


@EVERY_TYPE
def test_the_type_exists_and_extends_what_it_should(type_: Type) -> None:
    found = getattr(pyjms, type_.name)
    assert inspect.isclass(found)
    for base in type_.bases:
        assert issubclass(found, Exception if base == "Exception" else getattr(pyjms, base))


@EVERY_TYPE
def test_each_method_has_both_names_and_takes_each_overload(type_: Type) -> None:
    found = getattr(pyjms, type_.name)
    for method in type_.methods:
        java = getattr(found, method.java)
        if not method.is_property:
            assert getattr(found, method.python) is java
            for overload in method.overloads:
                assert accepts(java, overload), f"{type_.name}.{method.java}{overload}"


@EVERY_TYPE
def test_each_property_can_be_read_and_written_as_specified(type_: Type) -> None:
    found = getattr(pyjms, type_.name)
    for wanted in type_.properties:
        prop = inspect.getattr_static(found, wanted.python)
        assert isinstance(prop, property), f"{type_.name}.{wanted.python}"
        assert getattr(found, wanted.getter) is prop.fget
        assert (getattr(found, wanted.setter) if wanted.setter else None) is prop.fset


@EVERY_TYPE
def test_each_constant_has_the_value_of_java(type_: Type) -> None:
    found = getattr(pyjms, type_.name)
    assert {name: getattr(found, name) for name in type_.constants} == type_.constants
    assert all(isinstance(getattr(found, name), int) for name in type_.constants)


@pytest.mark.parametrize("type_", EXCEPTIONS, ids=lambda type_: type_.name)
@pytest.mark.realises("BOIL-EXC-1")
def test_each_exception_has_the_constructors_of_java(type_: Type) -> None:
    found = getattr(pyjms, type_.name)
    assert issubclass(found, pyjms.JMSException)
    for names in type_.constructors:
        assert str(found(*("text" for _ in names))) == "text"
        error = found(**{name: name for name in names})
        assert error.message == "reason"
        assert error.error_code == ("error_code" if "error_code" in names else None)


@pytest.mark.parametrize("name", JAVA_EXCEPTIONS)
def test_each_java_exception_that_is_named_exists(name: str) -> None:
    assert issubclass(getattr(pyjms, name), Exception)
    assert not issubclass(getattr(pyjms, name), pyjms.JMSException)


@EVERY_INTERFACE
def test_an_interface_has_no_objects_of_its_own(type_: Type) -> None:
    found = getattr(pyjms, type_.name)
    if type_.methods and not type_.name.endswith("Factory"):
        with pytest.raises(TypeError, match="abstract"):
            found()


@EVERY_IMPLEMENTED
def test_a_concrete_class_takes_each_overload(type_: Type) -> None:
    classes = concrete_classes(type_.name)
    assert classes, f"nothing implements {type_.name}"
    for found in classes:
        for member in (member for base in lineage(type_.name) for member in base.methods):
            for overload in member.overloads:
                assert member.is_property or accepts(getattr(found, member.java), overload), (found, member, overload)


@EVERY_REAL_ONE
def test_a_real_object_has_each_member_under_both_names(type_: Type, real_objects: RealObjects) -> None:
    check_members(type_, real_objects.get(type_.name))


@EVERY_REAL_ONE
def test_a_real_object_answers_alike_under_both_names(type_: Type, real_objects: RealObjects) -> None:
    check_properties(type_, real_objects.get(type_.name))


@EVERY_REAL_ONE
def test_a_method_of_the_other_domain_is_refused(type_: Type, real_objects: RealObjects) -> None:
    check_wrong_domain(type_, real_objects.get(type_.name))


@pytest.mark.parametrize("type_", IN_DOUBT, ids=lambda type_: type_.name)
def test_an_object_for_distributed_transactions_is_whole_or_refused(type_: Type, real_objects: RealObjects) -> None:
    found, problem = None, ""
    try:
        found = real_objects.get(type_.name)
    except pyjms.JMSException as error:
        problem = str(error)
    if found is None:
        assert "distributed transactions" in problem
    else:
        check_members(type_, found)
        check_properties(type_, found)


def check_members(type_: Type, found: Any) -> None:
    """Fail unless `found` has each method of its type under both names, for each overload."""
    assert isinstance(found, getattr(pyjms, type_.name))
    for base in lineage(type_.name):
        for method in base.methods:
            assert callable(getattr(found, method.java))
            if method.is_property:
                assert isinstance(inspect.getattr_static(type(found), method.python), property)
                continue
            assert callable(getattr(found, method.python))
            for overload in method.overloads:
                assert accepts(getattr(found, method.python), overload), f"{found}.{method.python}{overload}"


def check_properties(type_: Type, found: Any) -> None:
    """Fail unless each property and its getter answer alike, and what can only be read is not written."""
    for wanted in (wanted for base in lineage(type_.name) for wanted in base.properties):
        if (type_.name, wanted.python) in NOT_READABLE:
            continue
        value = getattr(found, wanted.python)
        other = getattr(found, wanted.getter)()
        assert other is value or other == value or isinstance(value, MADE_ANEW)
        if wanted.setter is None:
            with pytest.raises(AttributeError):
                setattr(found, wanted.python, value)


def check_wrong_domain(type_: Type, found: Any) -> None:
    """Fail unless the methods of the other domain, which Java has it inherit, are refused."""
    for method in (method for base in lineage(type_.name) for method in base.methods):
        if method.java in type_.wrong_domain:
            arguments = ["text"] * max(map(len, method.overloads))
            with pytest.raises(pyjms.IllegalStateException):
                getattr(found, method.java)(*arguments)


MADE_ANEW = (pyjms.Enumeration, pyjms.ConnectionMetaData)
NOT_READABLE = {
    ("BytesMessage", "body_length"),  # of a new message, which is write-only
}
