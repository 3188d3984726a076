"""`JmsObjectMessage`: a body of one Python object, pickled (JMS 1.1 §3.11).

The object is pickled when it is set and unpickled each time it is read, so that neither side sees what the other one
does to its copy (§3.12). An object that has never left this process is unpickled freely. Unpickling runs what the
pickle says, so bytes from anywhere else are decoded by `TrustingUnpickler`, which builds instances of trusted classes
out of plain data and does nothing besides.
"""

from __future__ import annotations

import pickle
from typing import Any

from pyjms.api.message import ObjectMessage
from pyjms.errors import MessageFormatException
from pyjms.messages.base import JmsMessage
from pyjms.messages.context import TrustedClasses
from pyjms.messages.unpickling import TrustingUnpickler
from pyjms.spi.envelope import BodyKind, ObjectBody
from pyjms.spi.words import reason_of

_PROTOCOL = 5


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
            return TrustingUnpickler(body.data, self._trusted()).load()
        except MessageFormatException:
            raise
        except Exception as error:
            raise MessageFormatException(f"the object cannot be decoded: {reason_of(error)}") from error

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
            f"{type(object).__name__} cannot be pickled, so no ObjectMessage can carry it: {reason_of(error)}"
        ) from error
    return ObjectBody(data, local=True)
