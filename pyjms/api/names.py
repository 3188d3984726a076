"""Members with two names: the Python name that is declared, and the Java name derived from it.

A class of the API derives from `JavaNames`. If its class statement has ``declares=True``, each public method and
property in its body gets its Java name (`java_name`): ``create_session`` is also ``createSession``; the property
``client_id`` is also ``getClientID()`` and ``setClientID(value)``. A property that can only be read, beside a method
``set_…`` of its name, is written by that method (`_add_setters`). Every subclass, here or in an application,
may define either name of a declared member; the other one follows (`_complete`). Both names are real attributes of the
class, bound to the same function, so neither costs anything at run time.

A class of an application may also have a field with the Python name of a getter, as classes from Java often do:
`FieldProperty` tells the two apart.

Type checkers read the same declarations in ``pyjms/api/*.pyi``, which ``tools/make_stubs.py`` derives from them.
"""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import wraps
from traceback import walk_tb
from types import CodeType, FrameType, FunctionType, MemberDescriptorType
from typing import Any, ClassVar, Final

__all__ = ["Interface", "JavaNames", "Member", "hidden_method", "java_name"]


_WORDS = {"id": "ID", "jms": "JMS", "jmsx": "JMSX", "rm": "RM", "utf": "UTF", "xa": "XA"}
"""Words that Java writes as one run of capitals."""

_PLAIN = frozenset({"format_id", "global_transaction_id"})
"""Members of ``javax.transaction.xa.Xid``, where Java writes such a word like any other."""

UNSET: Final = object()
"""No value, where None is a value."""


def java_name(python_name: str, prefix: str = "") -> str:
    """Return the Java spelling: ``read_utf`` → ``readUTF``; with prefix ``get``: ``client_id`` → ``getClientID``."""
    first, *others = python_name.split("_")
    spell = str.capitalize if python_name in _PLAIN else _spell
    return (prefix + spell(first) if prefix else first) + "".join(map(spell, others))


def _spell(word: str) -> str:
    return _WORDS.get(word) or word.capitalize()


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
        # The loop begins at the root, so that the nearest declaration of a name wins.
        for base in reversed(cls.__mro__[1:]):
            members.update(vars(base).get("java_members", {}))
        if declares or members:
            _add_setters(cls, members, declares)
        if declares:
            members.update({name: found for name, value in vars(cls).items() if (found := _declared(name, value))})
        cls.java_members = members
        if declares:
            _prepare(cls)
        for member in members.values():
            _complete(cls, member)


class Interface(JavaNames, ABC):
    """Base of the API's interfaces: a subclass must define each of its members, under either name."""

    __slots__ = ()


def _add_setters(cls: type, members: dict[str, Member], declares: bool) -> None:
    """Have each property of the class body that lacks a setter be written by the body's method ``set_…`` of its name.

    So it is with the setters of `JMSProducer`, which return the producer and are methods in Python, too.
    """
    # The list is a copy, as the loop replaces properties.
    for name, value in list(vars(cls).items()):
        if not isinstance(value, property) or value.fset is not None:
            continue
        if not declares and not (name in members and members[name].setter):
            continue
        setter = vars(cls).get(f"set_{name.rstrip('_')}")
        if isinstance(setter, FunctionType):
            setattr(cls, name, property(value.fget, setter, doc=value.__doc__))


def _declared(name: str, value: object) -> Member | None:
    if name.startswith("_"):
        return None
    if isinstance(value, property):
        return Member(name, getter=java_name(name, "get"), setter=java_name(name, "set") if value.fset else None)
    if isinstance(value, FunctionType):
        return Member(name, method=java_name(name))
    return None


def _complete(cls: type, member: Member) -> None:
    """Give `cls` both names of `member`, from the one that its nearest definition has."""
    # The nearest class decides: an application may override under one name what a base class defines under the other.
    for owner in cls.__mro__:
        own = vars(owner)
        if _defines(own, member.python):
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
    """Return whether a class body has `name`; a decorator that makes a second class, such as ``dataclass(slots=True)``, puts derived names into it, too."""
    return name in own and not getattr(own[name], "is_derived", False)


def _is_field(value: object) -> bool:
    """Return whether a value is a slot, or the default of a field, and not a property or the like."""
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
    """Make the Python name of a member defined by its Java names; `field` is the class body's value under the Python name of a property."""
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
    # Below a class with such a field, a class that overrides the getter has the field, too.
    made.has_field = (
        made.is_annotated
        or made.slot is not None
        or any(isinstance(found, FieldProperty) and found.has_field for found in above)
        or any(uses_field(function, member.python) for function in (getter, setter))
    )


def _follow_annotation(cls: type, member: Member) -> None:
    """Make the field that the class body annotates serve as the property."""

    def get(self: Any) -> Any:
        return made.read(self)

    def set_(self: Any, value: Any) -> None:
        made.write(self, value)

    get.is_derived = set_.is_derived = True  # type: ignore[attr-defined]
    made = _set_property(cls, member.python, get, set_ if member.setter else None)
    made.has_field = made.is_annotated = True
    _follow_python(cls, member, {member.python: made})


def _prepare(cls: type) -> None:
    """Prepare the properties that `cls` declares for subclasses that use the name for a field."""
    # The list is a copy, as the loop replaces properties.
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
    made.__doc__ = getattr(getter, "__doc__", None)  # otherwise Python 3.11 shows that of the class
    made.__set_name__(cls, name)
    setattr(cls, name, made)
    return made


def hidden_method(given: object) -> str | None:
    """Return the error text about a method of `given` that a field hides, so that it cannot be called; None if there is none."""
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
    """Return whether a field hides a method, and not a class body that sets it to None, as it does not support it."""
    kind = type(given)
    # The classes themselves are asked, as an access by getattr() would call a property.
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


class FieldProperty(property):
    """A property beside a field of the same name; ``getter`` and ``setter`` copy it as a plain property.

    ``getSession()`` is also the property ``session``, so ``self.session = …`` in a class of an application uses the
    property. An instance attribute of that name belongs to the application: methods of the class read and write the attribute,
    all other code calls the getter and the setter, as in Java. The attribute is stored where Python stores any other: in the
    instance's dictionary, or in a slot.
    """

    _name = ""
    java_getter = ""
    has_field = False
    """Whether the class is known to have such a field: it is annotated, or the getter or setter uses it."""
    is_annotated = False
    """Whether the class body annotates the field and gives it no value, so that the class itself has no such attribute."""
    slot: Any = None
    """The descriptor of the slot that keeps the field; None: the instance's dictionary does."""
    default: Any = UNSET
    """The value that the class body gives to the field."""

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)  # type: ignore[misc]  # typeshed does not have it
        self._name = name
        self.java_getter = java_name(name, "get")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._of_class(owner)
        frame = sys._getframe(1)  # noqa: SLF001  nothing else tells an access of the class's own from one of others
        if self._is_own_access(instance, frame):
            value = self._stored(instance)
            if value is not UNSET:
                return value
            # The getter itself reads a field that has no value yet: calling the getter for it would never end.
            if frame.f_code is _code(self.fget):
                raise AttributeError(f"{type(instance).__name__!r} object has no attribute {self._name!r}")
        try:
            return self._getter_of(instance)(instance)
        except RecursionError as error:
            if explained := self._explained(error, instance):
                raise explained from None
            raise

    def __set__(self, instance: Any, value: Any) -> None:
        frame = sys._getframe(1)  # noqa: SLF001  as above
        if self.fset is None or self.__isabstractmethod__:
            if not self._may_store(instance, frame):
                raise AttributeError(
                    f"{self._name} is the Python name of {self.java_getter}() and cannot be set: "
                    f"call a field of your own by another name, such as _{self._name}"
                )
            self.write(instance, value)
        elif self.has_field and self._is_inside(instance, frame):
            self.write(instance, value)
        else:
            try:
                self.fset(instance, value)
            except RecursionError as error:
                if explained := self._explained(error, instance):
                    raise explained from None
                raise

    def __delete__(self, instance: Any) -> None:
        if self.slot is not None:
            self.slot.__delete__(instance)
        elif getattr(instance, "__dict__", {}).pop(self._name, UNSET) is UNSET:
            raise AttributeError(f"{type(instance).__name__!r} object has no attribute {self._name!r}")

    def read(self, instance: Any) -> Any:
        """Return the value of the field. Raises AttributeError while it has none."""
        value = self._stored(instance)
        if value is UNSET:
            raise AttributeError(f"{type(instance).__name__!r} object has no attribute {self._name!r}")
        return value

    def write(self, instance: Any, value: Any) -> None:
        """Set the field. Raises AttributeError for an instance without a place for it."""
        if self.slot is not None:
            self.slot.__set__(instance, value)
            return
        attributes = getattr(instance, "__dict__", None)
        if attributes is None:
            raise AttributeError(
                f"{type(instance).__name__!r} object has no attribute {self._name!r}: add it to __slots__"
            )
        attributes[self._name] = value

    def _of_class(self, owner: type | None) -> Any:
        if self.default is not UNSET:
            return self.default
        if self.is_annotated or (self.__isabstractmethod__ and not _is_abstract(owner, self.java_getter)):
            # Python's own answer for such a field, which also tells dataclasses that it has no default
            raise AttributeError(f"type object {getattr(owner, '__name__', owner)!r} has no attribute {self._name!r}")
        return self

    def _getter_of(self, instance: Any) -> Callable[[Any], Any]:
        """Return the getter: that of the class, where a decorator has removed its property, so that this one of the interface is found."""
        if not self.__isabstractmethod__ or not self._is_current(instance):
            return self.fget  # type: ignore[return-value]
        getter = getattr(type(instance), self.java_getter)
        return self.read if getattr(getter, "is_derived", False) else getter

    def _stored(self, instance: Any) -> Any:
        if self.slot is not None:
            try:
                return self.slot.__get__(instance, type(instance))
            except AttributeError:
                return UNSET
        return getattr(instance, "__dict__", {}).get(self._name, self.default)

    def _is_own_access(self, instance: Any, frame: FrameType) -> bool:
        # Beside a setter, access from inside counts as access to the field only if the class is
        # known to have it (decision 0301).
        if self.fset is not None and not (self.has_field or self.__isabstractmethod__):
            return False
        return self._is_current(instance) and self._is_inside(instance, frame)

    def _may_store(self, instance: Any, frame: FrameType) -> bool:
        if not is_of_application(type(instance)):
            return False
        return (
            self.has_field
            or self.__isabstractmethod__
            or self._stored(instance) is not UNSET
            or self._is_inside(instance, frame)
        )

    def _is_current(self, instance: Any) -> bool:
        """Return whether this is the present property of the class, and not one that ``super()`` has found."""
        return next(found for kind in type(instance).__mro__ if (found := vars(kind).get(self._name))) is self

    def _is_inside(self, instance: Any, frame: FrameType) -> bool:
        """Return whether `frame` runs a method of the instance's class, or a function within one, for this instance."""
        code = frame.f_code
        # The object is the first argument of a method, or a free variable of a function within one.
        names = (*code.co_varnames[: min(code.co_argcount, 1)], *code.co_freevars)
        values = frame.f_locals
        if not any(values.get(name) is instance for name in names):
            return False
        if code is _code(self.fget) or code is _code(self.fset):
            return True
        kinds = [kind for kind in type(instance).__mro__ if is_of_application(kind)]
        return any(
            code.co_qualname.startswith(f"{kind.__qualname__}.")
            or any(_code(value) is code for value in list(vars(kind).values()))
            for kind in kinds
        )

    def _explained(self, error: RecursionError, instance: Any) -> RecursionError | None:
        """Return the error to raise for `error`; None if it does not come from this property's use of itself."""
        text = (
            f"{self._name} is the Python name of {self.java_getter}(), which calls itself without end where a "
            f"getter or setter uses self.{self._name}: call the field by another name, such as _{self._name}"
        )
        # An error with this very text was made further down, and passes through all calls of the recursion.
        if error.args != (text,):
            frames = [frame for frame, _ in walk_tb(error.__traceback__) if frame.f_code in _ACCESSES]
            # Two accesses to one property of one object are a recursion of this property; any other endless recursion
            # is not.
            if sum(frame.f_locals["self"] is self and frame.f_locals["instance"] is instance for frame in frames) < 2:
                return None
            error = RecursionError(text)
        return error.with_traceback(None)  # a thousand nested calls would hide its text


_ACCESSES = (FieldProperty.__get__.__code__, FieldProperty.__set__.__code__)


def reading_field(getter: Callable[[Any], Any], name: str, java_getter: str) -> Callable[[Any], Any]:
    """Return a getter of one of our own classes that reads the field `name` of an instance that has one, and otherwise calls `getter`.

    If a subclass overrides the getter, that one decides about reading the field, and ``super()`` finds `getter`.
    """

    @wraps(getter)
    def get(self: Any) -> Any:
        attributes = self.__dict__
        # A class that overrides the getter decides by itself whether it reads the field.
        if name in attributes and getattr(type(self), java_getter, None) is get:
            return attributes[name]
        return getter(self)

    return get


def is_of_application(kind: type) -> bool:
    """Return whether `kind` is no class of this package."""
    return kind.__module__ != "pyjms" and not kind.__module__.startswith("pyjms.")


def annotated(kind: type) -> Collection[str]:
    """Return the names that the body of `kind` annotates and gives no value, as of a dataclass; none for a class of ours."""
    if not is_of_application(kind):
        return ()
    values = vars(kind)
    return [name for name, hint in _annotations(kind).items() if name not in values and "ClassVar" not in str(hint)]


def _annotations(kind: type) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        # Since 3.14 annotations are evaluated late; this form accepts names that only a type checker knows.
        from annotationlib import Format, get_annotations

        return get_annotations(kind, format=Format.FORWARDREF)
    return vars(kind).get("__annotations__", {})  # type: ignore[no-any-return]


def uses_field(function: Any, name: str) -> bool:
    """Return whether a method reads or writes the attribute `name` of its own object."""
    while (wrapped := getattr(function, "__wrapped__", None)) is not None:
        function = wrapped
    code = _code(function)
    return code is not None and bool(code.co_argcount) and _uses(code, code.co_varnames[0], name)


def _uses(code: CodeType, own: str, name: str) -> bool:
    if name in code.co_names:
        loaded = ""
        for operation, argument in _operations(code):
            # The attribute belongs to the method's own object if that was loaded just before.
            if argument == name and loaded == own and operation in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"):
                return True
            names = argument if isinstance(argument, tuple) else (argument,)
            is_variable = "LOAD_FAST" in operation or operation in ("LOAD_DEREF", "LOAD_CLASSDEREF")
            # Some versions of Python load two variables by one instruction: the second one is on top.
            loaded = names[-1] if is_variable else ""
    return any(_uses(inner, own, name) for inner in code.co_consts if isinstance(inner, CodeType))


def _operations(code: CodeType) -> Iterator[tuple[str, Any]]:
    from dis import get_instructions

    for instruction in get_instructions(code):
        # EXTENDED_ARG stands between a load and the access that belongs to it, and loads nothing.
        if instruction.opname != "EXTENDED_ARG":
            yield instruction.opname, instruction.argval


def _code(function: Any) -> CodeType | None:
    found = getattr(function, "__code__", None)
    return found if isinstance(found, CodeType) else None


def _is_abstract(owner: type | None, name: str) -> bool:
    return bool(getattr(getattr(owner, name, None), "__isabstractmethod__", False))
