"""`JmsObjectMessage`: a body of one Python object, pickled (JMS 1.1 §3.11).

The object is pickled when it is set and unpickled each time it is read, so that neither side sees what the other one
does to its copy (§3.12). An object that has never left this process is unpickled freely. Unpickling runs what the
pickle says, so bytes from anywhere else are decoded by `_TrustingUnpickler`, which builds instances of trusted classes
out of plain data and does nothing besides.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from typing import Any, ClassVar, NoReturn

from pyjms.api.message import ObjectMessage
from pyjms.errors import MessageFormatException
from pyjms.messages.base import JmsMessage
from pyjms.messages.context import TrustedClasses
from pyjms.messages.java_text import shorten
from pyjms.spi.envelope import BodyKind, ObjectBody

__all__ = ["JmsObjectMessage"]

_CLASS_NAME_MAX = 200
"""So much of a class's name an error shows: it is there to be copied into ``trusted=``."""

_PROTOCOL = 5
_build: Callable[[Any], None] = pickle._Unpickler.dispatch[pickle.BUILD[0]]  # noqa: SLF001


class JmsObjectMessage(JmsMessage, ObjectMessage):
    """A message whose body is a copy of `object`, or None."""

    __slots__ = ()
    kind = BodyKind.OBJECT
    _body: ObjectBody | None

    def __init__(self, object: Any = None) -> None:
        JmsMessage.__init__(self)
        self._body = _pickled(object)

    @property
    def object(self) -> Any:
        body = self._body
        if body is None:
            return None
        try:
            if body.local:
                return pickle.loads(body.data)  # noqa: S301  made by this process, never seen by another one
            return _TrustingUnpickler(body.data, self._trusted()).load()
        except MessageFormatException:
            raise
        except Exception as error:
            raise MessageFormatException(f"the object cannot be decoded: {type(error).__name__}: {error}") from error

    @object.setter
    def object(self, object: Any) -> None:
        self._check_body_writeable()
        self._body = _pickled(object)

    def _trusted(self) -> TrustedClasses:
        return frozenset() if self._context is None else self._context.trusted


def _pickled(object: Any) -> ObjectBody | None:
    if object is None:
        return None
    try:
        data = pickle.dumps(object, _PROTOCOL)
    except Exception as error:
        raise MessageFormatException(
            f"{type(object).__name__} cannot be pickled, so no ObjectMessage can carry it: {error}"
        ) from error
    return ObjectBody(data, local=True)


class _TrustingUnpickler(pickle._Unpickler):  # noqa: SLF001  the one whose operations can be replaced
    """Decodes a pickle of unknown origin.

    Globals are classes, trusted ones, under their own names: neither functions nor what a module happens to import.
    Two operations that would reach beyond new instances are refused: BUILD on a class, which would change the class
    itself, and the extension registry, which knows objects by number.
    """

    stack: list[Any]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)  # noqa: SLF001

    def __init__(self, data: bytes, trusted: TrustedClasses) -> None:
        super().__init__(BytesIO(data))
        self._trusted = trusted

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
        _build(self)

    def refuse_extension(self) -> NoReturn:
        """Refuse an operation that names an object by its number in ``copyreg``."""
        raise MessageFormatException("the object uses the extension registry of copyreg, which is not trusted")

    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.EXT1[0]] = refuse_extension
    dispatch[pickle.EXT2[0]] = refuse_extension
    dispatch[pickle.EXT4[0]] = refuse_extension
