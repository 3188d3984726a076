"""One connection of an http port, within the limits of the port: uvicorn knows none for who never sends a whole request, and none
for who does not read the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pyjms.spi.clock import SystemClock
from pyjms_provider.protocols.rare_lines import RareLines
from pyjms_provider.transport.listener import KEPT_FROM_OPERATORS, is_kept
from pyjms_provider.transport.reports import RareReports, Report

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pyjms_provider.transport.settings import ListenerSettings

_log = logging.getLogger(__name__)
_PORTION: Final = 65_536


class InPortions:
    """Sends answers in portions, each when the client has taken most of those before: whole, one would be in the buffers of the
    connection twice over, where nobody sees whether anything of it is read.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the request answered."""

        async def send_portions(message: Message) -> None:
            body = message.get("body", b"") if message["type"] == "http.response.body" else b""
            last = max(0, len(body) - 1) // _PORTION * _PORTION
            for begin in range(0, last, _PORTION):
                await send({**message, "body": body[begin : begin + _PORTION], "more_body": True})
            await send({**message, "body": body[last:]} if last else message)

        await self._app(scope, receive, send_portions)


class _RareLog(logging.Logger):
    """What uvicorn says of the connections of one port: what strangers can cause is written once in five seconds. Errors are ours, and all written."""

    def __init__(self) -> None:
        super().__init__(_log.name)
        self.parent = _log
        self._clock = SystemClock()
        self._rare = RareLines()

    def isEnabledFor(self, level: int) -> bool:
        """Return what the log of the package says now: this logger is not told when that changes."""
        return _log.isEnabledFor(level)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written. On the event loop."""
        if record.levelno != logging.WARNING:
            return True
        missed = self._rare.missed(record.msg, self._clock.monotonic_ms())
        if missed is None:
            return False
        record.msg = f"PYJMS-HTTP-5 {record.msg}{missed}"
        return True


class LimitedConfig(uvicorn.Config):
    """What the connections of one port have in common."""

    def __init__(self, app: Any, listener: ListenerSettings, **options: Any) -> None:
        most = listener.max_connections
        # Connections are limited by `HttpConnection`; uvicorn limits requests, whose clients may have gone, and refuses at the limit.
        limit = None if most is None else most + 1
        super().__init__(InPortions(app), http=HttpConnection, limit_concurrency=limit, **options)
        self.listener = listener
        self.per_address: Counter[str] = Counter()
        """How many connections each address has; on the event loop."""
        self.address = ""
        """Where it listens, once that is known."""
        self.reports = RareReports(SystemClock())
        self.log = _RareLog()


class HttpConnection(H11Protocol):
    """Hangs up on who comes too often, takes longer for a whole request than for a log-in, or leaves an answer unread."""

    _address: str | None = None
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Count the connection, and hang up at once if there are too many."""
        self.logger = self._limited.log
        super().connection_made(transport)
        config = self._limited
        self._address = address = "" if self.client is None else self.client[0]
        config.per_address[address] += 1
        refusal = self._refusal(address)
        if refusal is not None:
            config.reports.log(refusal, "%s at %s", address, config.address)
            self.connections.discard(self)  # uvicorn counts these, and would refuse requests of who came in time
            transport.abort()
            return
        self._await_request()

    def _refusal(self, address: str) -> Report | None:
        """Return why the newest connection is hung up on; None: it is not."""
        config = self._limited
        found = self.transport.get_extra_info("socket")
        if found is not None and is_kept(found.fileno(), KEPT_FROM_OPERATORS):
            return Report.FEW_FILES
        most, most_each = config.listener.max_connections, config.listener.max_connections_per_address
        if most is not None and len(self.connections) > most:
            return Report.TOO_MANY
        if most_each is not None and config.per_address[address] > most_each:
            return Report.TOO_MANY_OF_ONE
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._note_read()
        if self._address is not None:
            self._limited.per_address[self._address] -= 1
            if not self._limited.per_address[self._address]:
                del self._limited.per_address[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait on if that was not the rest of a request."""
        super().data_received(data)
        if self.conn.their_state in {h11.IDLE, h11.SEND_BODY}:
            self._await_request()
        else:
            self._stop_waiting()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        """Go on: the client has read most of what was sent."""
        self._note_read()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of the answer to be read if there will be none."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reading()

    def send_400_response(self, msg: str) -> None:
        """Say so to who breaks the rules of HTTP, if no answer has begun, and hang up. Who works on that request is to say nothing more."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.close()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self._await_reading()

    def _unsupported_upgrade_warning(self) -> None:
        """Tell of it, and not of what uvicorn would need."""
        self.logger.warning("a client asked for another protocol, and is answered in this one")

    def timeout_keep_alive_handler(self) -> None:
        """Close, once the last answer is read: the transport would wait for that for ever."""
        super().timeout_keep_alive_handler()
        self._await_reading()

    def shutdown(self) -> None:
        """The same, as the port closes."""
        super().shutdown()
        if self.transport.is_closing():
            self._await_reading()

    @property
    def _limited(self) -> LimitedConfig:
        assert isinstance(self.config, LimitedConfig)
        return self.config

    def _await_request(self) -> None:
        if self._deadline is None:
            wait_s = self._limited.listener.login_timeout_ms / 1000
            self._deadline = self.loop.call_later(wait_s, self.transport.abort)

    def _stop_waiting(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()

    def _await_reading(self) -> None:
        if self._unread is None:
            wait_ms = self._limited.listener.stalled_timeout_ms
            assert wait_ms is not None, "http ports have a limit"
            self._unread = self.loop.call_later(wait_ms / 1000, self.transport.abort)

    def _note_read(self) -> None:
        unread, self._unread = self._unread, None
        if unread is not None:
            unread.cancel()
