"""One declaration, two names: the Python name that is written and the Java name that follows from it.

A class of the API derives from `JavaNames`. Where its class statement says ``declares=True``, each public method and
property in its body gets its Java name (`java_name`): ``create_session`` is also ``createSession``; the property
``client_id`` is also ``getClientID()`` and ``setClientID(value)``. Every class below it, here or in an application,
may define either name of a declared member; the other one follows (`_complete`). Both names are real attributes of the
class, bound to the same function, so neither costs anything at run time. A class of an application may also have a field
with the Python name of a getter: `FieldProperty` tells the two apart.

Type checkers read the same declarations in ``pyjms/api/*.pyi``, which ``tools/make_stubs.py`` derives from them.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, MemberDescriptorType
from typing import Any, ClassVar

from pyjms.api.fields import UNSET, FieldProperty, annotated, is_of_application, reading_field, uses_field
from pyjms.api.spelling import java_name

__all__ = ["Interface", "JavaNames", "Member", "hidden_method", "java_name"]


@dataclass(frozen=True, slots=True)
class Member:
    """The names of one declared member. A method has `method`; a property has `getter` and perhaps `setter`."""

    python: str
    method: str | None = None
    getter: str | None = None
    setter: str | None = None

    @property
    def java(self) -> tuple[str, ...]:
        """The Java names, one or two."""
        return tuple(name for name in (self.method, self.getter, self.setter) if name)


class JavaNames:
    """Base of every class whose members have two names."""

    __slots__ = ()
    java_members: ClassVar[dict[str, Member]] = {}
    """The declared members of this class and its bases, by Python name."""

    def __init_subclass__(cls, *, declares: bool = False, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        members: dict[str, Member] = {}
        for base in reversed(cls.__mro__[1:]):
            members.update(vars(base).get("java_members", {}))
        if declares:
            members.update({name: found for name, value in vars(cls).items() if (found := _declared(name, value))})
        cls.java_members = members
        if declares:
            _prepare(cls)
        for member in members.values():
            _complete(cls, member)


class Interface(JavaNames, ABC):
    """Base of the API's interfaces: who derives from one must define each of its members, under either name."""

    __slots__ = ()


def _declared(name: str, value: object) -> Member | None:
    if name.startswith("_"):
        return None
    if isinstance(value, property):
        return Member(name, getter=java_name(name, "get"), setter=java_name(name, "set") if value.fset else None)
    if isinstance(value, FunctionType):
        return Member(name, method=java_name(name))
    return None


def _complete(cls: type, member: Member) -> None:
    """Give `cls` both names of `member`, from whichever its nearest definition has."""
    for owner in cls.__mro__:
        own = vars(owner)
        if member.python in own:
            if _defines(own, member.getter) and _is_field(own[member.python]):
                _follow_java(cls, member, own, own[member.python])
            else:
                _follow_python(cls, member, own)
            return
        if any(name in own for name in member.java):
            _follow_java(cls, member, own)
            return
        if member.getter and member.python in annotated(owner):
            _follow_annotation(cls, member)
            return


def _defines(own: Any, name: str | None) -> bool:
    """Tell whether a class body has `name`; a decorator that makes a second class, as ``dataclass(slots=True)``, puts derived names into it, too."""
    return name in own and not getattr(own[name], "is_derived", False)


def _is_field(value: object) -> bool:
    """Tell a slot, or a value that the class body gives to a field, from a property or the like."""
    return isinstance(value, MemberDescriptorType) or not hasattr(type(value), "__get__")


def _follow_python(cls: type, member: Member, own: Any) -> None:
    definition = own[member.python]
    wanted: dict[str | None, Any]
    if member.method:
        wanted = {member.method: definition}
    elif isinstance(definition, property):
        wanted = {member.getter: definition.fget, member.setter: definition.fset}
    else:
        wanted = {member.getter: _reader(member.python), member.setter: _writer(member.python)}
    for name, value in wanted.items():
        if name and value and not _defines(own, name) and getattr(cls, name, None) is not value:
            setattr(cls, name, value)


def _follow_java(cls: type, member: Member, own: Any, field: object = UNSET) -> None:
    """Make the Python name of what has Java names; `field` is what the class body has under the Python name of a property."""
    if member.method:
        setattr(cls, member.python, own[member.method])
        return
    getter = getattr(cls, member.getter or "", None)
    setter = getattr(cls, member.setter, None) if member.setter else None
    made = _set_property(cls, member.python, getter, setter)
    if isinstance(field, MemberDescriptorType):
        made.slot = field
    else:
        made.default = field
    above = [vars(kind).get(member.python) for kind in cls.__mro__[1:]]
    made.is_annotated = any(member.python in annotated(kind) for kind in cls.__mro__)
    made.has_field = (
        made.is_annotated
        or made.slot is not None
        or any(isinstance(found, FieldProperty) and found.has_field for found in above)
        or any(uses_field(function, member.python) for function in (getter, setter))
    )


def _follow_annotation(cls: type, member: Member) -> None:
    """Have the field that the class body annotates serve as the property."""

    def get(self: Any) -> Any:
        return made.read(self)

    def set_(self: Any, value: Any) -> None:
        made.write(self, value)

    get.is_derived = set_.is_derived = True  # type: ignore[attr-defined]
    made = _set_property(cls, member.python, get, set_ if member.setter else None)
    made.has_field = made.is_annotated = True
    _follow_python(cls, member, {member.python: made})


def _prepare(cls: type) -> None:
    """Have the properties that `cls` declares know what to do when a class below it uses the name for a field."""
    for name, value in list(vars(cls).items()):
        if not _declared(name, value) or not isinstance(value, property):
            continue
        if value.__isabstractmethod__:
            _set_property(cls, name, value.fget, value.fset)
        elif not value.fset:
            made = _set_property(cls, name, reading_field(value.fget, name, java_name(name, "get")), None)  # type: ignore[arg-type]
            made.has_field = True


def _set_property(cls: type, name: str, getter: Any, setter: Any) -> FieldProperty:
    made = FieldProperty(getter, setter)
    made.__doc__ = getattr(getter, "__doc__", None)  # else Python 3.11 shows that of the class
    made.__set_name__(cls, name)
    setattr(cls, name, made)
    return made


def hidden_method(given: object) -> str | None:
    """Return what to tell of a method of `given` that a field hides, so that nobody can call it; None where there is none."""
    kind = type(given)
    members: dict[str, Member] = getattr(kind, "java_members", {})
    for member in members.values():
        for name in (member.python, member.method) if member.method else member.java:
            if name and not callable(getattr(given, name, None)) and _is_hidden(given, name):
                declaring = next((base for base in kind.__mro__ if not is_of_application(base)), kind)
                return (
                    f"{kind.__name__} has a field {name}, which hides the method {name}() of {declaring.__name__}: "
                    f"call the field by another name, such as _{name}"
                )
    return None


def _is_hidden(given: object, name: str) -> bool:
    """Tell a field from a method that the class body sets to None, as it does not support it."""
    kind = type(given)
    defined = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return defined is not None or name in getattr(given, "__dict__", ())


def _reader(name: str) -> Callable[[Any], Any]:
    """Return a getter of the attribute `name` (a slot, which has no function of its own)."""

    def get(self: Any) -> Any:
        return getattr(self, name)

    get.is_derived = True  # type: ignore[attr-defined]  # see FieldProperty: it knows the value itself
    return get


def _writer(name: str) -> Callable[[Any, Any], None]:
    def set_(self: Any, value: Any) -> None:
        setattr(self, name, value)

    set_.is_derived = True  # type: ignore[attr-defined]
    return set_
