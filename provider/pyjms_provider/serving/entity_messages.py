"""Messages of the OASIS working draft "AMQP Management Version 1.0": requests read from them, and answers written as such.

An AMQP client has maps and lists in the bodies. Messages of JMS cannot nest them: a client of another protocol writes a flat map, or a
TextMessage with a JSON object, and gets a TextMessage with JSON. So does a client of AMQP that sends a text, as pyjms over ``amqp://`` may.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyjms.spi.envelope import BodyKind, Envelope, MessageId
from pyjms.types import Long
from pyjms_provider.amqp import performatives
from pyjms_provider.amqp.codec import Array, write_value
from pyjms_provider.amqp.envelope import AmqpEnvelope, read_envelope
from pyjms_provider.amqp.jms import amqp_id_of
from pyjms_provider.amqp.message import VALUE, Message, write_application_properties, write_section
from pyjms_provider.amqp.performatives import Properties
from pyjms_provider.management.entities import EntityAnswer
from pyjms_provider.management.errors import BadRequestError, ContentTypeError, RequestTooLargeError
from pyjms_provider.management.rest.answers import error_data, status_of
from pyjms_provider.management.rest.requests import read_json
from pyjms_provider.model.errors import UnknownOperationError

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.errors import ProviderError

LONGEST: Final = 4 * 2**20
"""Characters or bytes of a request."""
_NAMED_BY: Final = frozenset({"type", "name", "identity"})
_OPERATION: Final = "operation"
STATUS_CODE: Final = "statusCode"
STATUS_DESCRIPTION: Final = "statusDescription"
_STATUSES: Final[Mapping[int, int]] = {405: 501, 412: 409, 413: 400, 415: 400, 421: 404, 422: 400, 502: 500}
"""The status of the draft for one of REST that it does not have."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of either kind."""

    properties: Mapping[str, Any]
    body: Any
    """As JSON."""
    has_sections: bool = False
    """Whether AMQP clients get the body as a value of AMQP."""


def asks_for_entities(request: Envelope) -> bool:
    """Return whether a message is a request of the draft, and not one of JSON alone."""
    given = request.properties
    return _OPERATION in given and not _NAMED_BY.isdisjoint(given)


def read_body(request: Envelope) -> Any:
    """Return the body of a request as JSON. Raises `BadRequestError` and the like."""
    sections = request.sections if isinstance(request, AmqpEnvelope) else None
    if sections is not None and len(sections) > LONGEST:
        raise RequestTooLargeError(f"a request has at most {LONGEST} bytes")
    if request.body_kind is BodyKind.TEXT or request.body_kind is BodyKind.NONE:
        text = request.body
        if not isinstance(text, str) or not text:
            return None
        return read_text(text)
    if sections is not None:
        # The body for JMS would have lost maps and lists in it.
        return _plain(Message(sections).body)
    if request.body_kind is BodyKind.MAP and isinstance(request.body, Mapping):
        return _plain(dict(request.body))
    raise ContentTypeError("the body of a request is a map, or a text with a JSON object")


def read_text(text: str) -> Any:
    """Return what JSON says. Raises `BadRequestError` and the like."""
    if len(text) > LONGEST:
        raise RequestTooLargeError(f"a request has at most {LONGEST} characters")
    return read_json(
        text.encode("utf-8", "surrogatepass")
    )  # half of a pair is refused when the bytes are read as UTF-8


def entity_answer(answer: EntityAnswer) -> Answer:
    """Return the answer to a request that was done."""
    return Answer(_properties(answer.status) | dict(answer.properties), answer.body, has_sections=True)


def entity_failure(error: ProviderError, *, is_internal: bool = False) -> Answer:
    """Return the answer to a request that was not done."""
    status = 501 if isinstance(error, UnknownOperationError) else 500 if is_internal else status_of(error)
    told = _properties(HTTPStatus(_STATUSES.get(status, status)), error.reason)
    return Answer(told, error_data(error), has_sections=True)


def _properties(status: HTTPStatus, description: str | None = None) -> dict[str, Any]:
    return {STATUS_CODE: int(status), STATUS_DESCRIPTION: _text(description or status.phrase)}


def write_answer(request: Envelope, where: Address, answer: Answer, *, now_ms: int, lives_ms: int) -> Envelope:
    """Return the message with an answer.

    Args:
        request: the request.
        where: where it goes to.
        answer: the answer.
        now_ms: the time in milliseconds since 1970.
        lives_ms: how long it lives, in milliseconds.
    """
    correlation = request.correlation_id if request.correlation_id is not None else request.message_id
    message_id = f"ID:{uuid.uuid4()}"
    sections = request.sections if isinstance(request, AmqpEnvelope) else None
    if not answer.has_sections or sections is None or isinstance(request.body, str):
        return Envelope(
            destination=where,
            message_id=MessageId(message_id),
            timestamp_ms=now_ms,
            expiration_ms=now_ms + lives_ms,
            delivery_mode=1,
            priority=4,
            correlation_id=correlation,
            reply_to=None,
            jms_type=None,
            properties=answer.properties,
            body_kind=BodyKind.TEXT,
            body=json.dumps(answer.body),
        )
    properties = Properties(
        message_id=message_id,
        to=Message(sections).properties.reply_to,  # as the client wrote it
        correlation_id=amqp_id_of(correlation),
        absolute_expiry_time=now_ms + lives_ms,
        creation_time=now_ms,
    )
    data = b"".join(
        (
            performatives.write(properties),
            write_application_properties(answer.properties),
            write_section(VALUE, write_value(_amqp(answer.body))),
        )
    )
    return read_envelope(data, now_ms=now_ms, destination=where)


def _plain(value: Any) -> Any:
    """Return a value of AMQP or JMS as JSON has it. Raises `BadRequestError` for one that it has not."""
    for kinds, convert in _PLAIN:
        if isinstance(value, kinds):
            return convert(value)
    raise BadRequestError(f"a value in the body is of the class {type(value).__name__}, which no request has")


def _plain_map(value: Mapping[Any, Any]) -> dict[str, Any]:
    if not all(isinstance(each, str) for each in value):
        raise BadRequestError("the names in a map of the body are texts")
    return {str(name): _plain(each) for name, each in value.items()}


_PLAIN: Final[tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...]] = (
    ((type(None), bool), lambda value: value),
    (str, str.__str__),
    (int, int),
    (float, float),
    (dict, _plain_map),
    ((list, tuple), lambda value: [_plain(each) for each in value]),
    (Array, lambda value: [_plain(each) for each in value.items]),
    (UUID, str),
)


def _amqp(value: Any) -> Any:
    """Return a value of JSON as AMQP has it."""
    match value:
        case str():
            return _text(value)
        case bool() | float() | None:
            return value
        case int():
            return Long(value)
        case dict():
            return {_text(str(name)): _amqp(each) for name, each in value.items()}
        case list() | tuple():
            return [_amqp(each) for each in value]
    return _text(str(value))


def _text(text: str) -> str:
    # Half of a surrogate pair, which texts of JMS may have, is no UTF-8.
    return text.encode("utf-8", "replace").decode()
