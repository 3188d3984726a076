"""An authorization server on loopback: publishes keys, answers about tokens, and misbehaves when told to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs

Answer = tuple[int, bytes, dict[str, str]]


class TokenServer:
    """What it answers is in `answer`; what it was asked in `asked`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, dict[str, list[str]]]] = []
        self.answer: Callable[[dict[str, list[str]]], Answer] = lambda form: (404, b"", {})
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply({})

            def do_POST(self) -> None:
                self.reply(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))

            def reply(self, form: dict[str, list[str]]) -> None:
                server.asked.append((self.path, self.headers["Authorization"], form))
                status, body, headers = server.answer(form)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(body)
                except ConnectionError:
                    return  # the asker had enough

            def log_message(self, *arguments: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_port}/path?x=1"

    def says(self, data: object, status: int = 200) -> None:
        body = json.dumps(data).encode()
        self.answer = lambda form: (status, body, {})

    @contextmanager
    def running(self) -> Iterator[TokenServer]:
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(10)
