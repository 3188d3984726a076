"""Decodes pickles of unknown origin: plain values and instances of trusted classes are built, and nothing else is done.

Plain values are those of Python's own types, and those of the standard library that `pyjms.messages.plain_values` makes, whose
classes are not called with what the pickle says. What the pickle is made of decides how long that takes and how much memory it needs, not what it claims: no length is
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
from pyjms.messages.plain_values import Build, make_uuid, plain_class, set_uuid

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


def _not_pickled_so(kind: type) -> MessageFormatException:
    return MessageFormatException(f"the object would make a {kind.__name__} in a way in which none is pickled")


class TrustingUnpickler(pickle._Unpickler):  # noqa: SLF001  the one whose operations can be replaced
    """Decodes a pickle of unknown origin.

    Globals are classes, plain or trusted ones, under their own names: neither functions nor what a module happens to import.
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
        self._plain: dict[type, Build] = {}
        """The plain classes that the pickle has named."""
        self._bare_uuids: dict[int, Any] = {}
        """Those that have no number yet, by their id."""

    def load(self) -> Any:
        loaded = super().load()
        if self._bare_uuids:
            raise MessageFormatException("the object holds a UUID without a number")
        return loaded

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (plain := plain_class(module_name, global_name)) is not None:
            self._plain[plain[0]] = plain[1]
            return plain[0]
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

    # What calls: a plain class is never called with what the pickle says, and no other one with what has more elements than bytes.

    def load_reduce(self) -> None:
        args = self._checked_arguments(self.stack[-1])
        if (build := self._build_of(self.stack[-2])) is None:
            _dispatch[pickle.REDUCE[0]](self)
            return
        del self.stack[-1]
        self.stack[-1] = build(self.stack[-1], args, self.budget)

    def load_newobj(self) -> None:
        args = self._checked_arguments(self.stack[-1])
        if (build := self._build_of(self.stack[-2])) is None:
            _dispatch[pickle.NEWOBJ[0]](self)
            return
        del self.stack[-1]
        kind = self.stack[-1]
        if build is not make_uuid:
            raise _not_pickled_so(kind)
        made = self.stack[-1] = build(kind, args, self.budget)
        self._bare_uuids[id(made)] = made

    def load_newobj_ex(self) -> None:
        kind, args, keywords = self.stack[-3:]
        if self._build_of(kind) is not None:
            raise _not_pickled_so(kind)
        self._checked_arguments(args)
        self._checked_arguments(tuple(keywords.values()))
        _dispatch[pickle.NEWOBJ_EX[0]](self)

    def _instantiate(self, klass: Any, args: Any) -> None:
        if self._build_of(klass) is not None:
            raise _not_pickled_so(klass)
        self._checked_arguments(tuple(args))
        super()._instantiate(klass, args)  # type: ignore[misc]  # typeshed does not have it

    def load_build(self) -> None:
        made, state = self.stack[-2:]
        if isinstance(made, type):
            raise MessageFormatException("the object would change a class, which no decoded object may")
        if type(made) not in self._plain:
            _dispatch[pickle.BUILD[0]](self)
            return
        if self._bare_uuids.pop(id(made), None) is None:
            raise MessageFormatException(
                f"the object would change a {type(made).__name__}, which has no more to it than its value"
            )
        set_uuid(made, state, self.budget)
        del self.stack[-1]

    def _build_of(self, kind: Any) -> Build | None:
        return self._plain.get(kind) if isinstance(kind, type) else None

    def _checked_arguments(self, args: Any) -> tuple[Any, ...]:
        """Return the arguments of a call. A range among them is paid for: a class below `list` takes all of its elements."""
        if not isinstance(args, tuple):
            raise MessageFormatException("the object would call a class with arguments that are no tuple")
        for arg in args:
            if type(arg) is range:
                self.budget.spend(max(0, -((arg.start - arg.stop) // arg.step)))
        return args

    # What adds to an object, by calling its methods.

    def load_append(self) -> None:
        self._check_holder(self.stack[-2])
        _dispatch[pickle.APPEND[0]](self)

    def load_appends(self) -> None:
        self._check_holder(self.metastack[-1][-1])
        _dispatch[pickle.APPENDS[0]](self)

    def _check_holder(self, holder: Any) -> None:
        if isinstance(holder, type):
            raise MessageFormatException("the object would add to a class, which no decoded object may")

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
        self._check_items(self.stack[-3])
        self.budget.pay(self.stack[-3], self.stack[-2:-1])
        _dispatch[pickle.SETITEM[0]](self)

    def load_setitems(self) -> None:
        self._check_items(self.metastack[-1][-1])
        self.budget.pay(self.metastack[-1][-1], self.stack[::2])
        _dispatch[pickle.SETITEMS[0]](self)

    def load_additems(self) -> None:
        self._check_holder(self.metastack[-1][-1])
        self.budget.pay(self.metastack[-1][-1], self.stack)
        _dispatch[pickle.ADDITEMS[0]](self)

    def load_dict(self) -> None:
        self.budget.pay(self.stack, self.stack[::2])
        _dispatch[pickle.DICT[0]](self)

    def load_frozenset(self) -> None:
        self.budget.pay(self.stack, self.stack)
        _dispatch[pickle.FROZENSET[0]](self)

    def _check_items(self, holder: Any) -> None:
        self._check_holder(holder)
        if type(holder) in self._plain and not isinstance(holder, dict):
            raise MessageFormatException(
                f"the object would set items of a {type(holder).__name__}, which is not pickled so"
            )

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.NEWOBJ[0]] = load_newobj
    dispatch[pickle.NEWOBJ_EX[0]] = load_newobj_ex
    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.APPEND[0]] = load_append
    dispatch[pickle.APPENDS[0]] = load_appends
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
