"""A broker on a loopback socket that says what a test tells it to: it answers CONNECT and receipts, and records the rest."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Self

from pyjms.spi.errors import ProviderError
from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode
from pyjms_provider.protocols.stomp.frames import Frame, Heartbeat, Version

PATIENCE_S = 30.0


@dataclass
class FakeBroker:
    """Start it with ``with``; it ends with the block, and all its connections do."""

    server: str | None = "ActiveMQ/5.17.2"
    heart_beat: str = "0,0"
    tls: ssl.SSLContext | None = None
    reads: bool = True
    unanswered: set[str] = field(default_factory=set)
    """Commands whose receipts are not sent."""
    refused: dict[str, str] = field(default_factory=dict)
    """Command → the message of the ERROR that answers its receipt."""
    cut_before: tuple[str, int] | None = None
    """Cut the connection when so many frames of that command have come, instead of an answer to the last."""
    on_frame: Callable[[int, Frame], None] = lambda number, frame: None

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._changed = Condition()
        self._connections: list[socket.socket] = []
        self._threads: list[Thread] = []
        self.frames: list[tuple[int, Frame]] = []
        """All frames that came, with the number of their connection, from 0."""
        self.beats = 0
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Refuse connections from now on, and cut those that are there."""
        with suppress(OSError):  # stopped already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._connections):
            _end(connection)
        for thread in list(self._threads):
            thread.join(PATIENCE_S)

    @property
    def url(self) -> str:
        return f"{'stomp' if self.tls is None else 'stomps'}://127.0.0.1:{self.port}"

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def of(self, command: str) -> list[Frame]:
        """Return the frames of one command that came so far."""
        with self._changed:
            return [frame for _, frame in self.frames if frame.command == command]

    def of_newest(self, command: str) -> list[Frame]:
        """Return those that came so far on the newest connection."""
        newest = len(self._connections) - 1
        with self._changed:
            return [frame for number, frame in self.frames if (number, frame.command) == (newest, command)]

    def wait_for(self, command: str, number: int = 1) -> Frame:
        """Return the frame of that command that came as the `number`th, once it has come."""
        with self._changed:
            found = self._changed.wait_for(lambda: self._nth(command, number), PATIENCE_S)
            assert found is not None, f"no {command} came; there were {[frame for _, frame in self.frames]}"
            return found

    def wait_for_beats(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.beats >= number, PATIENCE_S), f"{self.beats} heart-beats"

    def push(self, frame: Frame) -> None:
        """Send a frame on the newest connection."""
        self.push_bytes(encode(frame, Version.V1_2))

    def push_bytes(self, data: bytes) -> None:
        self._connections[-1].sendall(data)

    def deliver(self, subscription: str, ack: str, text: str = "", **headers: str) -> None:
        """Send a MESSAGE of a client that does not know the profile."""
        body = text.encode()
        base = {"subscription": subscription, "message-id": f"ID:{ack}", "ack": ack, "destination": "/queue/orders"}
        self.push(
            Frame("MESSAGE", {**base, **{name.replace("_", "-"): value for name, value in headers.items()}}, body)
        )

    def cut(self) -> None:
        """Cut the newest connection."""
        _end(self._connections[-1])

    # Within

    def _nth(self, command: str, number: int) -> Frame | None:
        found = [frame for _, frame in self.frames if frame.command == command]
        return found[number - 1] if len(found) >= number else None

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
                if self.tls is not None:
                    connection = self.tls.wrap_socket(connection, server_side=True)
            except ssl.SSLError:
                continue
            except OSError:
                return
            self._connections.append(connection)
            if self.reads:
                self._spawn(self._serve, connection, len(self._connections) - 1)

    def _serve(self, connection: socket.socket, number: int) -> None:
        decoder = FrameDecoder()
        try:
            while data := connection.recv(65536):
                for event in decoder.feed(data):
                    if isinstance(event, Heartbeat):
                        with self._changed:
                            self.beats += 1
                            self._changed.notify_all()
                    else:
                        self._take(connection, number, event)
        except OSError:
            pass
        finally:
            connection.close()

    def _take(self, connection: socket.socket, number: int, frame: Frame) -> None:
        with self._changed:
            self.frames.append((number, frame))
            count = len([each for _, each in self.frames if each.command == frame.command])
            self._changed.notify_all()
        if self.cut_before == (frame.command, count):
            _end(connection)
            return
        self.on_frame(number, frame)
        if frame.command in self.unanswered:
            return
        if frame.command == "CONNECT":
            headers = {"version": "1.2", "heart-beat": self.heart_beat}
            if self.server is not None:
                headers["server"] = self.server
            connection.sendall(encode(Frame("CONNECTED", headers), Version.V1_2))
            return
        receipt = frame.headers.get("receipt")
        if receipt is not None:
            reason = self.refused.get(frame.command)
            answer = Frame("RECEIPT", {"receipt-id": receipt})
            if reason is not None:
                answer = Frame("ERROR", {"receipt-id": receipt, "message": reason})
            connection.sendall(encode(answer, Version.V1_2))


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended
        connection.shutdown(socket.SHUT_RDWR)


class Silent:
    """The events of a physical connection that nobody listens to."""

    alone = True

    def on_message(self, physical: object, frame: Frame) -> None:
        return

    def on_unexpected(self, physical: object, frame: Frame) -> bool:
        return False

    def on_broker_error(self, error: ProviderError) -> None:
        return

    def is_only_waiter(self) -> bool:
        return self.alone

    def on_ended(self, physical: object, reason: str) -> None:
        return
