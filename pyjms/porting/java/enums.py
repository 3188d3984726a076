"""Enums: classes with a fixed number of objects."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pyjms.errors import IllegalArgumentException, NullPointerException
from pyjms.porting.java.errors import java_class_name

__all__ = ["Enum"]


class Enum:
    """java.lang.Enum: each object that is made is one of the class's constants, in the order in which they are made."""

    _constants: ClassVar[list[Any]]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if Enum in cls.__bases__:
            cls._constants = []

    def __init__(self, name: str) -> None:
        self.__name = name
        self.__ordinal = len(self._constants)
        self._constants.append(self)

    def name(self) -> str:
        """Return the name as it is declared."""
        return self.__name

    def ordinal(self) -> int:
        """Return its place among the constants, from 0 on."""
        return self.__ordinal

    def toString(self) -> str:
        """Return the name, unless the class says otherwise."""
        return self.__name

    def compareTo(self, other: Enum) -> int:
        """Return the difference of the places."""
        return self.__ordinal - other.__ordinal

    def __lt__(self, other: Enum) -> bool:
        return self.__ordinal < other.__ordinal

    def __reduce__(self) -> tuple[object, ...]:
        return _constant, (self._declaring(), self.__name)

    def _declaring(self) -> type:
        return next(each for each in type(self).__mro__ if Enum in each.__bases__)

    @classmethod
    def values(cls) -> list[Self]:
        """Return all constants."""
        return list(cls._constants)

    @classmethod
    def valueOf(cls, name: str | None) -> Self:
        """Return the constant of a name. Raises `IllegalArgumentException`."""
        if name is None:
            raise NullPointerException("Name is null")
        for each in cls._constants:
            if each.name() == name:
                return each  # type: ignore[no-any-return]
        raise IllegalArgumentException(f"No enum constant {java_class_name(cls).replace('$', '.')}.{name}")


def _constant(kind: type[Enum], name: str) -> Enum:
    return kind.valueOf(name)
