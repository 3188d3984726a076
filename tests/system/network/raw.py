"""A connection whose frames a test writes itself."""

from __future__ import annotations

import socket
from contextlib import suppress
from types import TracebackType
from typing import Self

from pyjms.spi.envelope import Envelope
from pyjms_provider.protocols.profile.commands import Command
from pyjms_provider.protocols.stomp.codec import FrameDecoder
from pyjms_provider.protocols.stomp.codec import encode as encode_frame
from pyjms_provider.protocols.stomp.command_frames import PACKED_LIMITS, command_frame
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.packed import LENGTH, PACKED_HEADER, PACKED_VERSION
from pyjms_provider.stores.codec import encode

PATIENCE_S = 20.0


class Raw:
    """One connection; a pyjms client's if it is `packed`."""

    def __init__(self, port: int, *, packed: bool = False) -> None:
        self._connect(port)
        more = f"pyjms-profile:1\n{PACKED_HEADER}:{PACKED_VERSION}\n" if packed else ""
        self.say(f"CONNECT\naccept-version:1.2\nhost:\n{more}\n")
        assert self.next().command == "CONNECTED"

    @classmethod
    def shaking(cls, port: int) -> Self:
        """Return a connection that has not logged in."""
        made = cls.__new__(cls)
        made._connect(port)
        return made

    def _connect(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = FrameDecoder(PACKED_LIMITS)
        self.frames: list[Frame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def say(self, text: str) -> None:
        self.socket.sendall(text.encode() + b"\0")

    def tell(self, command: Command, receipt: str | None = None) -> None:
        """Say a command of the profile, without waiting for the answer."""
        self.socket.sendall(encode_frame(command_frame(command, receipt), Version.V1_2))

    def do(self, command: Command) -> Frame:
        """Say a command, and return its RECEIPT."""
        self.tell(command, "done")
        answer = self.answer("done")
        assert answer.command == "RECEIPT", answer
        return answer

    def next(self) -> Frame:
        while not self.frames:
            data = self.socket.recv(65536)
            assert data, "the broker hung up"
            self.frames += [each for each in self._decoder.feed(data) if isinstance(each, Frame)]
        return self.frames.pop(0)

    def answer(self, receipt: str) -> Frame:
        """Return the answer to a frame; what comes before stays in `frames`."""
        before: list[Frame] = []
        while (frame := self.next()).headers.get("receipt-id") != receipt:
            before.append(frame)
        self.frames = before + self.frames
        return frame

    def rest(self) -> bytes:
        """Return what comes until the broker hangs up."""
        parts = []
        with suppress(ConnectionResetError):
            while data := self.socket.recv(65536):
                parts.append(data)
        return b"".join(parts)


def packed_body(*envelopes: Envelope) -> bytes:
    """Return the body of a SENDS."""
    parts = [encode(each) for each in envelopes]
    return b"".join(LENGTH.pack(len(part)) + part for part in parts)


def sends(body: bytes, session: str = "a", receipt: str | None = None) -> bytes:
    """Return a SENDS."""
    asks = "" if receipt is None else f"receipt:{receipt}\n"
    return f"SENDS\nsession:{session}\n{asks}content-length:{len(body)}\n\n".encode() + body + b"\0"
