"""Messages of another make, under Java names and under Python names: nothing of ours but the interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyjms.api.destination import Destination
from pyjms.api.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from pyjms.errors import JMSException, MessageEOFException, UnsupportedOperationException

FIELDS = {
    "MessageID": None,
    "Timestamp": 0,
    "CorrelationID": None,
    "ReplyTo": None,
    "Destination": None,
    "DeliveryMode": 2,
    "Redelivered": False,
    "Type": None,
    "Expiration": 0,
    "Priority": 4,
}
TYPES = ("Boolean", "Byte", "Short", "Int", "Long", "Float", "Double", "String", "Object")


class JavaEnumeration:
    """What an implementation that knows nothing of Python returns."""

    def __init__(self, elements: list[str]) -> None:
        self.elements = elements

    def hasMoreElements(self) -> bool:
        return bool(self.elements)

    def nextElement(self) -> str:
        return self.elements.pop(0)


def _java_members() -> dict[str, Any]:
    """Write getters and setters of header fields and properties as a Java class has them."""
    members: dict[str, Any] = {}
    for field in FIELDS:
        members[f"getJMS{field}"] = lambda self, field=field: self.fields[field]
        members[f"setJMS{field}"] = lambda self, value, field=field: self.fields.update({field: value})
    for kind in TYPES:
        members[f"get{kind}Property"] = lambda self, name: self.properties.get(name)
        members[f"set{kind}Property"] = lambda self, name, value: self.properties.update({name: value})
    return members


class JavaMessage(Message):
    """The header fields and properties of a message, under Java names."""

    def __init__(self) -> None:
        self.fields = dict(FIELDS)
        self.properties: dict[str, Any] = {}
        self.acknowledged = False

    locals().update(_java_members())

    def getJMSCorrelationIDAsBytes(self) -> bytes | None:
        raise UnsupportedOperationException

    def setJMSCorrelationIDAsBytes(self, value: bytes | None) -> None:
        raise UnsupportedOperationException

    def clearProperties(self) -> None:
        self.properties.clear()

    def propertyExists(self, name: str) -> bool:
        return name in self.properties

    def getPropertyNames(self) -> Any:
        return JavaEnumeration(list(self.properties))

    def acknowledge(self) -> None:
        self.acknowledged = True

    def clearBody(self) -> None:
        raise NotImplementedError


class JavaTextMessage(JavaMessage, TextMessage):
    """A text under Java names."""

    body: Any = None

    def getText(self) -> str | None:
        return self.body  # type: ignore[no-any-return]

    def setText(self, string: str | None) -> None:
        self.body = string


class JavaObjectMessage(JavaMessage, ObjectMessage):
    """An object under Java names."""

    body: Any = None

    def getObject(self) -> Any:
        return self.body

    def setObject(self, value: Any) -> None:
        self.body = value


class JavaMapMessage(JavaMessage, MapMessage):
    """A map under Java names."""

    def __init__(self) -> None:
        super().__init__()
        self.body: Any = {}

    for _kind in (*TYPES, "Char", "Bytes"):
        locals()[f"get{_kind}"] = lambda self, name: self.body.get(name)
        locals()[f"set{_kind}"] = lambda self, name, value: self.body.update({name: value})

    def getMapNames(self) -> Any:
        return JavaEnumeration(list(self.body))

    def itemExists(self, name: str) -> bool:
        return name in self.body


SEQUENCE = ("Boolean", "Byte", "Short", "Char", "Int", "Long", "Float", "Double")


class JavaStreamMessage(JavaMessage, StreamMessage):
    """A stream under Java names."""

    def __init__(self) -> None:
        super().__init__()
        self.body: list[Any] = []
        self.left: Iterator[Any] | None = None

    for _kind in (*SEQUENCE, "String", "Bytes"):
        locals()[f"read{_kind}"] = lambda self: self.readObject()
        locals()[f"write{_kind}"] = lambda self, value: self.body.append(value)

    def readObject(self) -> Any:
        assert self.left is not None, "reset first"
        for value in self.left:
            return value
        raise MessageEOFException

    def writeObject(self, value: Any) -> None:
        self.body.append(value)

    def reset(self) -> None:
        self.left = iter(self.body)


class JavaBytesMessage(JavaMessage, BytesMessage):
    """Bytes under Java names, which come in pieces of at most three."""

    body = b""
    position: int | None = None

    for _kind in (*SEQUENCE, "UTF", "Object", "Bytes"):
        locals()[f"write{_kind}"] = None
    for _kind in (*SEQUENCE, "UTF", "UnsignedByte", "UnsignedShort"):
        locals()[f"read{_kind}"] = None

    def getBodyLength(self) -> int:
        if self.position is None:
            raise JMSException("write-only")
        return len(self.body)

    def readBytes(self, value: bytearray, length: int | None = None) -> int:
        assert self.position is not None, "reset first"
        piece = self.body[self.position : self.position + min(3, len(value))]
        value[: len(piece)] = piece
        self.position += len(piece)
        return len(piece) or -1

    def reset(self) -> None:
        self.position = 0


class PythonMessage(Message):
    """The header fields and properties of a message, under Python names."""

    jms_message_id: Any = None
    jms_timestamp: Any = 0
    jms_correlation_id: Any = None
    jms_correlation_id_as_bytes: Any = None
    jms_reply_to: Destination | None = None
    jms_destination: Destination | None = None
    jms_delivery_mode: Any = 2
    jms_redelivered: Any = False
    jms_type: Any = None
    jms_expiration: Any = 0
    jms_priority: Any = 4

    def __init__(self) -> None:
        self.properties: dict[str, Any] = {}

    for _kind in TYPES:
        locals()[f"get_{_kind.lower()}_property"] = lambda self, name: self.properties.get(name)
        locals()[f"set_{_kind.lower()}_property"] = lambda self, name, value: self.properties.update({name: value})

    @property
    def property_names(self) -> Any:
        return list(self.properties)

    def clear_properties(self) -> None:
        self.properties.clear()

    def property_exists(self, name: str) -> bool:
        return name in self.properties

    def acknowledge(self) -> None:
        raise NotImplementedError

    def clear_body(self) -> None:
        raise NotImplementedError


class PythonTextMessage(PythonMessage, TextMessage):
    """A text under Python names."""

    text: Any = None
