"""Workflows as text: events and requests as messages, definitions and instances as JSON. No I/O.

All messages are text messages with a JSON object. An answer is identified by its JMSCorrelationID, the key of the
request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from pyjms.api.message import TextMessage
from pyjms.flows.definition import Flow, FlowException, Step
from pyjms.flows.instance import Answer, Ask, Event, Instance, Note, Retry, Status, Suspend

if TYPE_CHECKING:
    from pyjms.api.message import Message
    from pyjms.api.session import Session


KIND = "pyjms_flow"
"""The property with the kind of an event: ``start``, ``answer``, ``refusal``, ``retry``, ``skip``, ``park``,
``compensate``.
"""
INSTANCE = "pyjms_flow_instance"
STEP = "pyjms_flow_step"
ATTEMPT = "pyjms_flow_attempt"
_LONGEST_ID = 100
_LAST_VERSION = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of an instance. The same id twice starts one."""

    flow: str
    version: int
    """0: the newest deployed version."""
    data: Mapping[str, Any]


def start_message(session: Session, instance: str, start: Start) -> Message:
    """Return the event that starts an instance."""
    content = {"flow": start.flow, "version": start.version, "data": dict(start.data)}
    return _message(session, "start", instance, content)


def event_message(session: Session, instance: str, event: Retry | Suspend) -> Message:
    """Return the event of an operator's command to an instance."""
    if isinstance(event, Retry):
        return _message(session, "skip" if event.skip else "retry", instance, {"reason": event.reason})
    return _message(session, "compensate" if event.compensate else "park", instance, {"reason": event.reason})


def ask_message(session: Session, ask: Ask) -> Message:
    """Return the request for a step, or its compensation; the reply goes to its JMSReplyTo, which the engine sets."""
    message = session.create_text_message(json.dumps(dict(ask.data)))
    message.set_string_property(INSTANCE, ask.instance)
    message.set_string_property(STEP, ask.step)
    message.set_int_property(ATTEMPT, ask.attempt)
    message.jms_correlation_id = ask.key
    return message


def reply_message(session: Session, answer: Answer) -> Message:
    """Return the reply to a request; its JMSCorrelationID must be the key."""
    content: dict[str, Any] = {"reason": answer.reason} if answer.is_refused else {"data": dict(answer.data)}
    # The key begins with the instance's id, which has no colon.
    return _message(session, "refusal" if answer.is_refused else "answer", answer.key.partition(":")[0], content)


def read_event(message: Message) -> tuple[str, Start | Event]:
    """Return the instance's id and the event. Raises `FlowException` for a message that is no event."""
    try:
        kind = message.get_string_property(KIND)
        instance = message.get_string_property(INSTANCE)
        content = read_content(message)
        return _checked_instance(instance), _read(kind, message.jms_correlation_id or "", content)
    except (ValueError, KeyError, TypeError) as error:
        raise FlowException(f"message {message.jms_message_id} is no event of a workflow: {error!r}") from error


def read_content(message: Message) -> dict[str, Any]:
    """Return the JSON object in a text message. Raises `ValueError`."""
    content = _loaded(message.text or "") if isinstance(message, TextMessage) else None
    if not isinstance(content, dict):
        raise ValueError("a text message with a JSON object is expected")  # noqa: TRY004 - callers know one error
    return content


def _loaded(text: str) -> object:
    """Return the JSON value of a text, if a store can hold it. Raises ValueError."""
    try:
        # Python reads NaN and Infinity, which are not JSON (RFC 8259): other readers refuse them.
        content = json.loads(text, parse_constant=_refuse)
        json.dumps(content, ensure_ascii=False).encode()  # half a surrogate pair is no valid text elsewhere
    # RecursionError is no ValueError: such an event would end each engine that reads it.
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return content


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _checked_instance(instance: str | None) -> str:
    # A colon separates instance and step in a key.
    if not instance or ":" in instance:
        raise ValueError(f"{INSTANCE} is {instance!r}")
    return _checked_name(instance, INSTANCE)


def _checked_name(name: str, what: str) -> str:
    """Return a name if a store's column can hold it."""
    # PostgreSQL stores no NUL in a text.
    if len(name) > _LONGEST_ID or "\0" in name:
        raise ValueError(f"{what} is {name[:_LONGEST_ID]!r}")
    # Raises UnicodeEncodeError, a ValueError, for half of a surrogate pair.
    name.encode()
    return name


def _checked_version(version: object) -> int:
    # A bool is an int in Python, and the column has 32 bits.
    if type(version) is not int or not 0 <= version <= _LAST_VERSION:
        raise ValueError(f"version is {str(version)[:_LONGEST_ID]}")
    return version


def _read(kind: str | None, key: str, content: Mapping[str, Any]) -> Start | Event:
    match kind:
        case "start":
            flow = _checked_name(str(content["flow"]), "flow")
            return Start(flow=flow, version=_checked_version(content["version"]), data=dict(content["data"]))
        case "answer":
            return Answer(key=key, data=dict(content["data"]))
        case "refusal":
            return Answer(key=key, is_refused=True, reason=str(content["reason"]))
        case "retry" | "skip":
            return Retry(skip=kind == "skip", reason=str(content.get("reason", "")))
        case "park" | "compensate":
            return Suspend(reason=str(content["reason"]), compensate=kind == "compensate")
    raise ValueError(f"{KIND} is {kind!r}")


def _message(session: Session, kind: str, instance: str, content: Mapping[str, Any]) -> Message:
    message = session.create_text_message(json.dumps(content))
    message.set_string_property(KIND, kind)
    message.set_string_property(INSTANCE, instance)
    return message


_PLAIN = tuple(each.name for each in fields(Instance) if each.name not in {"data", "status", "story"})
"""Fields that are a text or a number. `asdict` would copy all data, at any depth."""


_RESOURCES = ("takes", "releases")


def write_flow_document(flow: Flow) -> str:
    """Return JSON that is the same for equal definitions."""
    # Sorted, as a second deployment of a version is compared with the first as text.
    document = asdict(flow)
    for step in document["steps"]:
        # Left out where there are none: versions that were deployed before there were resources stay equal to themselves.
        for name in _RESOURCES:
            if not step[name]:
                del step[name]
    return json.dumps(document, sort_keys=True)


def read_flow_document(text: str) -> Flow:
    """Return the definition that `write_flow_document` was given."""
    values: dict[str, Any] = json.loads(text)
    steps = tuple(
        Step(**{**step, **{name: tuple(step.get(name, ())) for name in _RESOURCES}}) for step in values.pop("steps")
    )
    return Flow(steps=steps, **values)


def write_instance(instance: Instance) -> str:
    """Return JSON."""
    story = [
        {"time_ms": note.time_ms, "what": note.what, "step": note.step, "reason": note.reason}
        for note in instance.story
    ]
    values = {name: getattr(instance, name) for name in _PLAIN}
    return json.dumps(values | {"data": dict(instance.data), "status": instance.status.value, "story": story})


def read_instance(text: str) -> Instance:
    """Return the instance that `write_instance` was given."""
    values: dict[str, Any] = json.loads(text)
    status = Status(values.pop("status"))
    story = tuple(Note(**note) for note in values.pop("story"))
    # Rows older than this field have none.
    heard = tuple(values.pop("heard", ()))
    return Instance(status=status, story=story, heard=heard, **values)
