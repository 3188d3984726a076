"""Decodes pickles of unknown origin: instances of trusted classes are built out of plain data, and nothing else is done.

What the pickle is made of decides how long that takes and how much memory it needs, not what it claims: no length is
believed, and keys are hashed within a budget (`pyjms.messages.hash_budget`). What a trusted class does with what it is
given is its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from struct import unpack
from typing import Any, ClassVar, NoReturn

from pyjms.errors import MessageFormatException
from pyjms.messages.context import TrustedClasses
from pyjms.messages.hash_budget import NESTING, HashBudget
from pyjms.messages.java_text import shorten

__all__ = ["TrustingUnpickler"]

_CLASS_NAME_MAX = 200
"""So much of a class's name an error shows: it is there to be copied into ``trusted=``."""

_MEMO_MAX = 2**32
"""Places of the memo lie below it, as where they are four bytes: those of larger ones could be chosen to hash alike."""

_MAKES = (
    *(pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.FROZENSET),
    *(pickle.REDUCE, pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.INST, pickle.OBJ),
)
"""The operations that make a tuple or a frozenset, or an instance of a trusted class that derives from one."""

_Operation = Callable[[Any], None]
_dispatch: dict[int, _Operation] = pickle._Unpickler.dispatch  # noqa: SLF001


def _weighing(make: _Operation) -> _Operation:
    """Return `make`, which pushes an object, so that it has that weighed if it can hold keys in keys."""

    def make_and_weigh(unpickler: TrustingUnpickler) -> None:
        make(unpickler)
        made = unpickler.stack[-1]
        if isinstance(made, NESTING):
            unpickler.budget.weigh(made)

    return make_and_weigh


class TrustingUnpickler(pickle._Unpickler):  # noqa: SLF001  the one whose operations can be replaced
    """Decodes a pickle of unknown origin.

    Globals are classes, trusted ones, under their own names: neither functions nor what a module happens to import.
    Two operations that would reach beyond new instances are refused: BUILD on a class, which would change the class
    itself, and the extension registry, which knows objects by number.
    """

    append: Callable[[Any], None]
    memo: dict[int, Any]
    metastack: list[list[Any]]
    read: Callable[[int], bytes]
    readline: Callable[[], bytes]
    stack: list[Any]
    dispatch: ClassVar[dict[int, _Operation]] = dict(_dispatch)

    def __init__(self, data: bytes, trusted: TrustedClasses) -> None:
        super().__init__(BytesIO(data))
        self._trusted = trusted
        self.budget = HashBudget(len(data))

    def find_class(self, module_name: str, global_name: str) -> Any:
        name = f"{module_name}.{global_name}"
        if name not in self._trusted and f"{module_name}.*" not in self._trusted:
            raise MessageFormatException(
                f"the object holds an instance of {shorten(name, _CLASS_NAME_MAX)}, a class that is not trusted: if its sender may make "
                f"such objects here, add it to the trusted= option of the ConnectionFactory"
            )
        found: Any = import_module(module_name)
        for part in global_name.split("."):
            found = getattr(found, part)
        if not isinstance(found, type) or (found.__module__, found.__qualname__) != (module_name, global_name):
            raise MessageFormatException(
                f"{shorten(name, _CLASS_NAME_MAX)} is no class of that module: trusted= lets an object hold instances of classes only"
            )
        return found

    def load_build(self) -> None:
        if isinstance(self.stack[-2], type):
            raise MessageFormatException("the object would change a class, which no decoded object may")
        _dispatch[pickle.BUILD[0]](self)

    def refuse_extension(self) -> NoReturn:
        """Refuse an operation that names an object by its number in ``copyreg``."""
        raise MessageFormatException("the object uses the extension registry of copyreg, which is not trusted")

    def load_bytearray8(self) -> None:
        (length,) = unpack("<Q", self.read(8))
        data = self.read(length)  # at most what is there; the original makes room for what is claimed
        if len(data) < length:
            raise MessageFormatException("the object is cut off")
        self.append(bytearray(data))

    def load_put(self) -> None:
        place = int(self.readline()[:-1])
        if not 0 <= place < _MEMO_MAX:
            raise MessageFormatException("the object has a place in its memo that no pickle has")
        self.memo[place] = self.stack[-1]

    # What hashes: the keys lie on the stack, their holder below them.

    def load_setitem(self) -> None:
        self.budget.pay(self.stack[-3], self.stack[-2:-1])
        _dispatch[pickle.SETITEM[0]](self)

    def load_setitems(self) -> None:
        self.budget.pay(self.metastack[-1][-1], self.stack[::2])
        _dispatch[pickle.SETITEMS[0]](self)

    def load_additems(self) -> None:
        self.budget.pay(self.metastack[-1][-1], self.stack)
        _dispatch[pickle.ADDITEMS[0]](self)

    def load_dict(self) -> None:
        self.budget.pay(self.stack, self.stack[::2])
        _dispatch[pickle.DICT[0]](self)

    def load_frozenset(self) -> None:
        self.budget.pay(self.stack, self.stack)
        _dispatch[pickle.FROZENSET[0]](self)

    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.EXT1[0]] = refuse_extension
    dispatch[pickle.EXT2[0]] = refuse_extension
    dispatch[pickle.EXT4[0]] = refuse_extension
    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8
    dispatch[pickle.PUT[0]] = load_put
    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.ADDITEMS[0]] = load_additems
    dispatch[pickle.DICT[0]] = load_dict
    dispatch[pickle.FROZENSET[0]] = load_frozenset
    for _makes in _MAKES:
        dispatch[_makes[0]] = _weighing(dispatch[_makes[0]])
