"""One question to a server of one's own choice, answered in JSON: for keys and for tokens.

Small on purpose: TLS with verified certificates (plain HTTP to this machine only), no redirects, no proxies, a limit on time as
a whole and on size. A server that drips a byte at a time, also of its headers, is cut off like one that is silent.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import json
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pyjms.spi.clock import Clock
from pyjms.spi.errors import ProviderError

_LIMIT: Final = 1024 * 1024
_CHUNK: Final = 16 * 1024


class EndpointError(ProviderError):
    """The server could not be asked, or its answer was not understood."""

    code = "PYJMS-ENDPOINT"


class Endpoint:
    """A URL that is asked now and then. Safe to use from any thread: each question has its own connection."""

    def __init__(self, url: str, *, timeout_ms: int, clock: Clock, ca_file: str = "") -> None:
        """Raise ValueError: the URL is none that will be asked, or `ca_file` cannot be read."""
        parts = urlsplit(url)
        if parts.scheme not in {"https", "http"} or not parts.hostname or parts.username is not None or parts.fragment:
            raise ValueError(f"{url!a} is no URL of a server: https://HOST/PATH is expected")
        if parts.scheme == "http" and not _is_here(parts.hostname):
            raise ValueError(f"{url!a} would send secrets unencrypted: use https")
        self.url = url
        self._host = parts.hostname
        self._port = parts.port
        self._target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._tls = _tls(ca_file) if parts.scheme == "https" else None

    def ask(self, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> object:
        """GET it, or POST `body`, and return what the JSON says. Raises `EndpointError`."""
        timeout_s = self._timeout_ms / 1000
        until_ms = self._clock.monotonic_ms() + self._timeout_ms

        def left_s() -> float:
            left_ms = until_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise TimeoutError
            return left_ms / 1000

        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)
        connection.response_class = _limited(left_s)
        try:
            connection.connect()
            connection.sock.settimeout(left_s())
            connection.request(
                "GET" if body is None else "POST", self._target, body, {"Accept": "application/json", **(headers or {})}
            )
            answer = connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                raise EndpointError(f"{self.url} answered {answer.status}, and 200 is expected")
            return json.loads(self._read(answer))
        except TimeoutError as error:
            raise EndpointError(f"{self.url} took longer than {self._timeout_ms} ms to answer") from error
        except (OSError, http.client.HTTPException) as error:
            raise EndpointError(f"{self.url} cannot be asked: {str(error) or type(error).__name__}") from error
        except (ValueError, RecursionError) as error:
            raise EndpointError(f"{self.url} did not answer in JSON") from error
        finally:
            connection.close()

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        data = bytearray()
        while chunk := answer.read1(_CHUNK):
            data += chunk
            if len(data) > _LIMIT:
                raise EndpointError(f"{self.url} answered with more than {_LIMIT} bytes")
        return bytes(data)


def _limited(left_s: Callable[[], float]) -> type[http.client.HTTPResponse]:
    """Return a class of responses that wait for no byte, of their headers neither, longer than `left_s` says when it is asked."""

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
            super().__init__(sock, *arguments, **options)
            self.fp = io.BufferedReader(_Limited(sock, self.fp.detach(), left_s))

    return Response


class _Limited(io.RawIOBase):
    """What comes by a socket, as long as there is time left."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, left_s: Callable[[], float]) -> None:
        self._socket = sock
        self._raw = raw
        self._left_s = left_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._left_s())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tls(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise ValueError(f"the certificates of {ca_file!a} cannot be read: {error.strerror or error}") from error
