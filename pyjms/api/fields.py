"""`FieldProperty`: the Python name of a getter, in a class that also has a field of that name, as classes from Java often do.

``getSession()`` is also the property ``session``, so ``self.session = …`` in a class of an application meets the
property. An instance attribute of that name is the application's own: methods of the class read and write the attribute,
everybody else calls the getter and the setter, as in Java. The attribute is kept where Python keeps any other: in the
instance's dictionary, or in a slot.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any, Final

from pyjms.api.spelling import java_name

UNSET: Final = object()
"""No value, where None is one."""


class FieldProperty(property):
    """A property beside a field. It is set up by `pyjms.api.names`, and copied by ``getter`` and ``setter`` as a plain property."""

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
        """Set the field. Raises AttributeError in an instance that has no place for it."""
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
        """Return the getter: of the class, where a decorator has removed its property, so that this one of the interface is found."""
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
        """Tell whether this is the property that the class has, and not one that ``super()`` has found."""
        return next(found for kind in type(instance).__mro__ if (found := vars(kind).get(self._name))) is self

    def _is_inside(self, instance: Any, frame: FrameType) -> bool:
        """Tell whether `frame` runs a method of the instance's class, or a function within one, for this instance."""
        code = frame.f_code
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
        """Return what to raise for `error`; None where it does not come from this property, which uses itself."""
        text = (
            f"{self._name} is the Python name of {self.java_getter}(), which calls itself without end where a "
            f"getter or setter uses self.{self._name}: call the field by another name, such as _{self._name}"
        )
        if error.args != (text,):
            frames = [frame for frame, _ in walk_tb(error.__traceback__) if frame.f_code in _ACCESSES]
            if sum(frame.f_locals["self"] is self and frame.f_locals["instance"] is instance for frame in frames) < 2:
                return None
            error = RecursionError(text)
        return error.with_traceback(None)  # a thousand calls, one below the other, would hide what it says


_ACCESSES = (FieldProperty.__get__.__code__, FieldProperty.__set__.__code__)


def reading_field(getter: Callable[[Any], Any], name: str, java_getter: str) -> Callable[[Any], Any]:
    """Return a getter of one of our own classes that reads the field `name` of an instance that has one, else calls `getter`.

    Where a class below overrides the getter, that one reads the field, if it wants to, and ``super()`` finds `getter`.
    """

    @wraps(getter)
    def get(self: Any) -> Any:
        attributes = self.__dict__
        if name in attributes and getattr(type(self), java_getter, None) is get:
            return attributes[name]
        return getter(self)

    return get


def is_of_application(kind: type) -> bool:
    """Tell whether `kind` is no class of this package."""
    return kind.__module__ != "pyjms" and not kind.__module__.startswith("pyjms.")


def annotated(kind: type) -> Collection[str]:
    """Return the names that the body of `kind` annotates and gives no value, as of a dataclass; none for a class of ours."""
    if not is_of_application(kind):
        return ()
    values = vars(kind)
    return [name for name, hint in _annotations(kind).items() if name not in values and "ClassVar" not in str(hint)]


def _annotations(kind: type) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(kind, format=Format.FORWARDREF)
    return vars(kind).get("__annotations__", {})  # type: ignore[no-any-return]


def uses_field(function: Any, name: str) -> bool:
    """Tell whether a method reads or writes the attribute `name` of its own object."""
    while (wrapped := getattr(function, "__wrapped__", None)) is not None:
        function = wrapped
    code = _code(function)
    return code is not None and bool(code.co_argcount) and _uses(code, code.co_varnames[0], name)


def _uses(code: CodeType, own: str, name: str) -> bool:
    if name in code.co_names:
        loaded = ""
        for operation, argument in _operations(code):
            if argument == name and loaded == own and operation in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"):
                return True
            names = argument if isinstance(argument, tuple) else (argument,)
            is_variable = "LOAD_FAST" in operation or operation in ("LOAD_DEREF", "LOAD_CLASSDEREF")
            loaded = names[-1] if is_variable else ""
    return any(_uses(inner, own, name) for inner in code.co_consts if isinstance(inner, CodeType))


def _operations(code: CodeType) -> Iterator[tuple[str, Any]]:
    from dis import get_instructions

    for instruction in get_instructions(code):
        if instruction.opname != "EXTENDED_ARG":
            yield instruction.opname, instruction.argval


def _code(function: Any) -> CodeType | None:
    found = getattr(function, "__code__", None)
    return found if isinstance(found, CodeType) else None


def _is_abstract(owner: type | None, name: str) -> bool:
    return bool(getattr(getattr(owner, name, None), "__isabstractmethod__", False))
