"""A receiver that hands messages to an HTTP service, and acknowledges each when the service has answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from pyjms.spi.receivers import MessageReceiver, PushedMessage, ReceiverError, ReceiverKind, ReceiverRequest

__all__ = ["HttpBridge", "HttpBridgeKind"]


class HttpBridge(MessageReceiver):
    """Posts messages, several at a time.

    Args:
        url: where to post them.
        calls: how many calls may be under way; while all are, the bridge accepts nothing.
        timeout_s: how long the service may take, in seconds.
    """

    def __init__(self, url: str, *, calls: int = 4, timeout_s: float = 10.0) -> None:
        self._url = urlsplit(url)
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(calls, thread_name_prefix="http-bridge")

    def handle(self, message: PushedMessage) -> bool:
        """Begin to post a message. It stays in its queue, as DELIVERED, until the service has it."""
        self._pool.submit(self._post, message)
        return False

    def _post(self, message: PushedMessage) -> None:
        envelope = message.envelope
        body = {"id": envelope.message_id, "text": envelope.body, "again": message.is_redelivered}
        try:
            self._call(json.dumps(body).encode())
        except (HTTPException, OSError):
            return  # not acknowledged: an operator, or the program, has it delivered again
        message.acknowledge()

    def _call(self, body: bytes) -> None:
        """Post a body. Raises `OSError` or `HTTPException` when the service does not answer with success."""
        kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        connection = kind(self._url.netloc, timeout=self._timeout_s)
        try:
            connection.request("POST", self._url.path or "/", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            if answer.status >= 300:
                raise HTTPException(f"{answer.status} {answer.reason}")
        finally:
            connection.close()

    def close(self) -> None:
        """Wait for the calls that are under way."""
        self._pool.shutdown()


class HttpBridgeKind(ReceiverKind):
    """Makes bridges for a broker; its entry point is ``http = "http_bridge:HttpBridgeKind"``."""

    def check(self, settings: Mapping[str, object]) -> None:
        """Refuse settings without a usable URL."""
        if unknown := settings.keys() - {"url", "calls"}:
            raise ReceiverError(f"the HTTP bridge has no setting {min(unknown)!r}; it has url and calls")
        url = settings.get("url")
        if not isinstance(url, str) or urlsplit(url).scheme not in {"http", "https"}:
            raise ReceiverError("the HTTP bridge needs a setting url, as http://127.0.0.1:8000/orders")
        if not isinstance(settings.get("calls", 4), int):
            raise ReceiverError("calls is a number")

    def make(self, request: ReceiverRequest) -> HttpBridge:
        """Return a bridge."""
        self.check(request.settings)
        calls = request.settings.get("calls", 4)
        assert isinstance(calls, int)
        return HttpBridge(str(request.settings["url"]), calls=calls)
