"""TLS trust, and explanations of TLS errors and wrong ports, for the commands that connect to a broker's http port.

Both clients of such ports use it, `pyjms story` here and `pyjms manage` of the bundled broker, so it uses only the SPI's errors.
"""

from __future__ import annotations

import os
import socket
import ssl
from http.client import BadStatusLine, HTTPException, RemoteDisconnected
from pathlib import Path
from typing import Final

from pyjms.spi.errors import ProviderError

__all__ = ["TrustError", "explained", "trusting"]

_PATIENCE_S: Final = 5.0


class TrustError(ProviderError):
    """A retry cannot succeed: the URL or ``--ca-file`` does not fit the port, or the file is no CA file."""

    code = "PYJMS-REST-TRUST"


def trusting(ca_file: Path | None) -> ssl.SSLContext:
    """Return the context that verifies a broker's certificate; `ca_file` None: by the system's authorities. Raises `TrustError`."""
    if ca_file is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=os.fspath(ca_file))
    except ssl.SSLError as error:
        raise TrustError(
            f"--ca-file {ca_file} has no certificates that can be read; they are written as PEM"
        ) from error
    except OSError as error:
        raise TrustError(f"--ca-file {ca_file}: {error.strerror}") from error


def explained(
    error: OSError | HTTPException, place: str, host: str, port: int | None, ca_file: Path | None
) -> TrustError | None:
    """Return the explanation of `error` if TLS caused it, or the port belongs to another service; None: another cause.

    `place`: the beginning of the URL, as the user knows it. A port expected to be without TLS is probed, for some seconds
    at most, for TLS.
    """
    scheme, _, rest = place.partition("://")
    if isinstance(error, ssl.SSLCertVerificationError):
        if ca_file is None:
            advice = "name a file with that of the broker, or of who signed it: --ca-file FILE"
        else:
            advice = (
                f"see whether --ca-file {ca_file} has that of who signed it, and whether the URL has the name it is for"
            )
        return TrustError(f"the certificate of {place} is not trusted ({error.verify_message}); {advice}")
    if isinstance(error, ssl.SSLError):
        return TrustError(
            f"{place} does not do TLS with us ({error.reason}); if it is a port without TLS, write http://{rest}"
        )
    if isinstance(error, BadStatusLine) and not isinstance(error, RemoteDisconnected):
        return TrustError(f"{place} answers, but not in HTTP; name the http port of the broker")
    # A port with TLS closes a connection that does not begin with a handshake: only then is it probed.
    is_cut_off = isinstance(error, (HTTPException, ConnectionResetError, BrokenPipeError))
    if scheme == "http" and is_cut_off and _speaks_tls(host, port or 80):
        return TrustError(f"{place} speaks TLS; write https://{rest}, and say whom to trust: --ca-file FILE")
    return None


def _speaks_tls(host: str, port: int) -> bool:
    """Return whether a port speaks TLS. No data is sent to it, so its certificate need not be checked."""
    context = ssl.create_default_context()
    # The order matters: `ssl` refuses CERT_NONE while names are checked.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=_PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except OSError:
        return False
