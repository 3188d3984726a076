"""One declaration, two names: the Python name that is written and the Java name that follows from it.

A class of the API derives from `JavaNames`. Where its class statement says ``declares=True``, each public method and
property in its body gets its Java name (`java_name`): ``create_session`` is also ``createSession``; the property
``client_id`` is also ``getClientID()`` and ``setClientID(value)``. Every class below it, here or in an application,
may define either name of a declared member; the other one follows (`_complete`). Both names are real attributes of the
class, bound to the same function, so neither costs anything at run time. A field cannot have the Python name of a
getter: `_ExplainedProperty` says so.

Type checkers read the same declarations in ``pyjms/api/*.pyi``, which ``tools/make_stubs.py`` derives from them.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from traceback import walk_tb
from types import FunctionType
from typing import Any, ClassVar

__all__ = ["Interface", "JavaNames", "Member", "java_name"]

_WORDS = {"id": "ID", "jms": "JMS", "jmsx": "JMSX", "rm": "RM", "utf": "UTF", "xa": "XA"}
"""Words that Java writes as one run of capitals."""

_PLAIN = frozenset({"format_id", "global_transaction_id"})
"""Members of ``javax.transaction.xa.Xid``, where Java writes such a word as any other."""


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
        for base in reversed(cls.__mro__[1:]):
            members.update(vars(base).get("java_members", {}))
        if declares:
            members.update({name: found for name, value in vars(cls).items() if (found := _declared(name, value))})
        cls.java_members = members
        if declares:
            _explain_writes(cls)
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
            _follow_python(cls, member, own)
            return
        if any(name in own for name in member.java):
            _follow_java(cls, member, own)
            return


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
        if name and value and name not in own and getattr(cls, name, None) is not value:
            setattr(cls, name, value)


def _follow_java(cls: type, member: Member, own: Any) -> None:
    if member.method:
        setattr(cls, member.python, own[member.method])
        return
    getter = getattr(cls, member.getter or "", None)
    setter = getattr(cls, member.setter, None) if member.setter else None
    _set_property(cls, member.python, getter, setter)


def _explain_writes(cls: type) -> None:
    """Have each property of `cls` that can only be read say what to do when a class below it uses the name for a field."""
    for name, value in list(vars(cls).items()):
        if _declared(name, value) and isinstance(value, property) and not value.fset and not value.__isabstractmethod__:
            _set_property(cls, name, value.fget, None)


def _set_property(cls: type, name: str, getter: Any, setter: Any) -> None:
    made = _ExplainedProperty(getter, setter)
    made.__doc__ = getattr(getter, "__doc__", None)  # else Python 3.11 shows that of the class
    made.__set_name__(cls, name)
    setattr(cls, name, made)


class _ExplainedProperty(property):
    """A property in whose class Java's habit, a field named like its getter, ends in an error that says what to do.

    In Python the field and the property would be one name: ``self.text = text`` in ``setText`` calls ``setText``.
    """

    _name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)  # type: ignore[misc]  # typeshed does not have it
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        try:
            return super().__get__(instance, owner)
        except RecursionError as error:
            if explained := self._explained(error, instance):
                raise explained from None
            raise

    def __set__(self, instance: Any, value: Any) -> None:
        if self.fset is None:
            raise AttributeError(
                f"{self._name} is the Python name of {java_name(self._name, 'get')}() and cannot be set: "
                f"call a field of your own by another name, such as _{self._name}"
            )
        try:
            super().__set__(instance, value)
        except RecursionError as error:
            if explained := self._explained(error, instance):
                raise explained from None
            raise

    def _explained(self, error: RecursionError, instance: Any) -> RecursionError | None:
        """Return what to raise for `error`; None where it does not come from this property, which uses itself."""
        text = (
            f"{self._name} is the Python name of {java_name(self._name, 'get')}(), which calls itself without end where a "
            f"getter or setter uses self.{self._name}: call the field by another name, such as _{self._name}"
        )
        if error.args != (text,):
            frames = [frame for frame, _ in walk_tb(error.__traceback__) if frame.f_code in _ACCESSES]
            if sum(frame.f_locals["self"] is self and frame.f_locals["instance"] is instance for frame in frames) < 2:
                return None
            error = RecursionError(text)
        return error.with_traceback(None)  # a thousand calls, one below the other, would hide what it says


_ACCESSES = (_ExplainedProperty.__get__.__code__, _ExplainedProperty.__set__.__code__)


def _reader(name: str) -> Callable[[Any], Any]:
    """Return a getter of the attribute `name` (a slot, which has no function of its own)."""

    def get(self: Any) -> Any:
        return getattr(self, name)

    return get


def _writer(name: str) -> Callable[[Any, Any], None]:
    def set_(self: Any, value: Any) -> None:
        setattr(self, name, value)

    return set_
