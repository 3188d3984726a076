"""What nobody can pass here: a server that only parses frames and hands them on, with and without stomp.py at its ends."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection as Pipe
from threading import Thread
from time import perf_counter
from typing import Final, cast

import psutil
import uvloop
from measure import PROPERTIES, TEXT
from network import Peer, pipelined
from network_clients import StompClient

from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode
from pyjms_provider.protocols.stomp.frames import Frame, Version

__all__ = ["forwarding"]

_CONNECTED: Final = Frame("CONNECTED", {"version": "1.2", "heart-beat": "0,0"})
_QUEUE: Final = "bench"


class _Forwarder(asyncio.Protocol):
    """One connection. Every SEND goes as MESSAGE to all that have subscribed; whatever asks for a receipt gets one."""

    subscribers: Final[list[asyncio.Transport]] = []

    def __init__(self) -> None:
        self._decoder = FrameDecoder(version=Version.V1_2)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport in self.subscribers:
            self.subscribers.remove(self._transport)

    def data_received(self, data: bytes) -> None:
        passing: list[bytes] = []
        for frame in self._decoder.feed(data):
            if not isinstance(frame, Frame):
                continue
            if frame.command == "SEND":
                frame.command = "MESSAGE"
                frame.headers |= {"subscription": "1", "message-id": "1"}
                passing.append(encode(frame, Version.V1_2))
            elif frame.command in {"CONNECT", "STOMP"}:
                self._transport.write(encode(_CONNECTED, Version.V1_2))
            elif frame.command == "SUBSCRIBE":
                self.subscribers.append(self._transport)
            receipt = frame.headers.get("receipt")
            if receipt is not None and frame.command != "MESSAGE":
                self._transport.write(encode(Frame("RECEIPT", {"receipt-id": receipt}), Version.V1_2))
        if passing:
            for subscriber in self.subscribers:
                subscriber.write(b"".join(passing))


def _serve(pipe: Pipe) -> None:
    loop = uvloop.new_event_loop()

    async def serve() -> None:
        server = cast("asyncio.Server", await loop.create_server(_Forwarder, "127.0.0.1", 0))
        pipe.send(server.sockets[0].getsockname()[1])
        await loop.run_in_executor(None, pipe.recv)
        server.close()

    loop.run_until_complete(serve())


@contextmanager
def _server() -> Iterator[tuple[int, psutil.Process]]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(theirs,))
    process.start()
    try:
        yield ours.recv(), psutil.Process(process.pid)
    finally:
        ours.send("end")
        process.join()


def _raw(port: int, count: int) -> float:
    """Return messages a second from one plain socket to another, which counts bytes."""
    headers = {"destination": f"/queue/{_QUEUE}", **{name: str(value) for name, value in PROPERTIES.items()}}
    data = encode(Frame("SEND", headers, TEXT.encode()), Version.V1_2)
    with (
        socket.create_connection(("127.0.0.1", port)) as sender,
        socket.create_connection(("127.0.0.1", port)) as taker,
    ):
        taker.sendall(encode(Frame("SUBSCRIBE", {"id": "1", "destination": "x", "receipt": "1"}), Version.V1_2))
        taker.recv(1000)
        begin = perf_counter()
        thread = Thread(target=sender.sendall, args=(data * (count // 20 * 20),))
        thread.start()
        ends = 0
        while ends < count // 20 * 20:
            ends += taker.recv(1 << 18).count(b"\0")
        took = perf_counter() - begin
        thread.join()
    return count / took


def forwarding(count: int) -> None:
    """Print what a server that only forwards reaches."""
    with _server() as (port, process):
        rate = _raw(port, count)
        print(f"ceiling: parse and forward, plain sockets: {rate:,.0f}/s", flush=True)
        peer = Peer(
            name="forwarder", connect=partial(StompClient, port, "activemq"), process=process, make_queue=lambda: _QUEUE
        )
        found = pipelined(peer, count)
        print(
            f"ceiling: parse and forward, stomp.py at both ends: {found.rate:,.0f}/s; "
            f"server {found.broker_us:.0f} µs, clients {found.client_us:.0f} µs",
            flush=True,
        )
