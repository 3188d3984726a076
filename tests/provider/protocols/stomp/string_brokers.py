"""What other brokers make of a SEND before it is a MESSAGE: each drops and changes what the real one does.

No broker here keeps a type, a message id of the sender's or an order of headers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyjms_provider.protocols.stomp.dialects import ARTEMIS, CLASSIC, RABBITMQ, Dialect
from pyjms_provider.protocols.stomp.frames import Frame

_NOT_KEPT = {"receipt", "transaction", "session", "content-length", "amq-msg-type", "persistent", "message-id"}


def classic(sent: Frame) -> Frame:
    """ActiveMQ Classic."""
    headers = {name: value for name, value in sorted(sent.headers.items()) if name not in _NOT_KEPT}
    headers |= {"message-id": "ID:host-61613-1-2:1:-1:1:1", "subscription": "s", "ack": "ID:host-61613-1-3"}
    if headers.pop("AMQ_SCHEDULED_DELAY", None) is not None:
        headers["scheduledJobId"] = "ID:host-61613-1-2:1:1:1:1"
    headers.setdefault("timestamp", "1767323045999")
    if sent.headers.get("persistent") == "true":
        headers["persistent"] = "true"
    is_bytes = "content-length" in sent.headers and sent.headers.get("amq-msg-type") != "text"
    if is_bytes or sent.headers.get("amq-msg-type") == "bytes":
        headers["content-length"] = str(len(sent.body))
    reply_to = headers.get("reply-to", "")
    if reply_to.startswith("/temp-"):
        headers["reply-to"] = reply_to.replace("/temp-queue/", "/remote-temp-queue/ID:host-1:").replace(
            "/temp-topic/", "/remote-temp-topic/ID:host-1:"
        )
    return Frame("MESSAGE", headers, sent.body)


def artemis(sent: Frame) -> Frame:
    """ActiveMQ Artemis."""
    headers = {name: value for name, value in sorted(sent.headers.items()) if name not in _NOT_KEPT}
    del headers["destination-type"]
    headers.pop("AMQ_SCHEDULED_TIME", None)
    headers |= {"message-id": "c1,17", "subscription": "s", "ack": "c1,17", "redelivered": "false"}
    headers["timestamp"] = "1767323045999"
    headers["persistent"] = sent.headers.get("persistent", "false")
    if "content-length" in sent.headers:
        headers["content-length"] = str(len(sent.body))
    return Frame("MESSAGE", headers, sent.body)


def rabbitmq(sent: Frame) -> Frame:
    """RabbitMQ."""
    headers = {name: value for name, value in sorted(sent.headers.items()) if name not in _NOT_KEPT}
    headers |= {"message-id": "T_s@@session-x@@1", "subscription": "s", "ack": "T_s@@session-x@@1"}
    headers["redelivered"] = "false"
    headers.pop("priority", None)  # the queue was declared without
    if sent.headers.get("persistent") == "true":
        headers["persistent"] = "true"
    if "reply-to" in headers:
        headers["reply-to"] = "/reply-queue/" + headers["reply-to"].rpartition("/")[2]
    if sent.body:
        headers["content-length"] = str(len(sent.body))
    return Frame("MESSAGE", headers, sent.body)


STRING_BROKERS: Mapping[str, tuple[Dialect, Callable[[Frame], Frame]]] = {
    "classic": (CLASSIC, classic),
    "artemis": (ARTEMIS, artemis),
    "rabbitmq": (RABBITMQ, rabbitmq),
}
