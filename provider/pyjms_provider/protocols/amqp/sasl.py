"""SASL without I/O (part 5, 5.3): the mechanisms, for clients and for the broker.

A client's mechanism answers challenges. The broker's side of a mechanism turns the client's answers into credentials, which an
authenticator judges; SCRAM asks for the stored keys of a user, so that no password is on the wire.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stringprep
import unicodedata
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pyjms_provider.amqp.errors import AmqpError, Condition
from pyjms_provider.security.contracts import ScramKeys

SCRAM_ITERATIONS_MIN: Final = 4096
"""RFC 7677, 4: fewer are not accepted from a server."""
SCRAM_ITERATIONS_MAX: Final = 1_000_000
"""More would keep a client's processor busy for seconds."""


class SaslError(AmqpError):
    """A negotiation has failed; the text says why, and never what was right."""

    def __init__(self, description: str) -> None:
        super().__init__(Condition.UNAUTHORIZED_ACCESS, description)


# ------------------------------------------------------------------------------------------------------------ credentials


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """A user's name and password, by PLAIN."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"PasswordLogin(user={self.user!r})"


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """An OAuth 2 access token, by XOAUTH2."""

    user: str
    token: str

    def __repr__(self) -> str:
        return f"TokenLogin(user={self.user!r})"


@dataclass(frozen=True, slots=True)
class CertificateLogin:
    """The certificate of the TLS layer, by EXTERNAL."""

    authorization: str
    """The identity that the client wants to act as; empty: the certificate's own."""


@dataclass(frozen=True, slots=True)
class AnonymousLogin:
    """Nobody in particular, by ANONYMOUS."""

    trace: str


@dataclass(frozen=True, slots=True)
class ScramLogin:
    """A user whose password SCRAM has verified."""

    user: str


Login = PasswordLogin | TokenLogin | CertificateLogin | AnonymousLogin | ScramLogin


def scram_keys(password: str, salt: bytes, iterations: int) -> ScramKeys:
    """Return what is stored of a password.

    Args:
        password: the password; it is prepared as RFC 4013 says.
        salt: random bytes, 16 or more.
        iterations: how often it is hashed; RFC 7677 asks for 4096 at least.
    """
    salted = hashlib.pbkdf2_hmac("sha256", saslprep(password).encode(), salt, iterations)
    return ScramKeys(
        salt, iterations, hashlib.sha256(_mac(salted, b"Client Key")).digest(), _mac(salted, b"Server Key")
    )


def saslprep(text: str) -> str:
    """Return `text` as passwords and names are compared (RFC 4013). Raises `SaslError` for prohibited characters."""
    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each for each in text if not stringprep.in_table_b1(each)
    )
    prepared = unicodedata.normalize("NFKC", mapped)
    prohibited = (
        stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4, stringprep.in_table_c5,
        stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8, stringprep.in_table_c9, stringprep.in_table_a1,
    )  # fmt: skip
    if any(test(each) for each in prepared for test in prohibited):
        raise SaslError("a name or password has characters that SASL prohibits (RFC 4013)")
    if any(map(stringprep.in_table_d1, prepared)):
        # RFC 3454, 6: text of one direction only, from its first to its last character
        is_mixed = any(map(stringprep.in_table_d2, prepared))
        if is_mixed or not (stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1])):
            raise SaslError("a name or password mixes directions of writing (RFC 4013)")
    return prepared


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


# ---------------------------------------------------------------------------------------------------------------- client


class ClientMechanism(ABC):
    """One mechanism at the client."""

    name: str

    @abstractmethod
    def start(self) -> bytes | None:
        """Return the initial response; None: there is none."""

    def respond(self, challenge: bytes) -> bytes:
        """Return the answer to a challenge. Raises `SaslError`: the server does not keep to the mechanism."""
        raise SaslError(f"the server challenges {self.name}, which has no challenges")

    def finish(self, additional_data: bytes | None) -> None:  # noqa: B027  # most mechanisms have nothing to look at
        """Look at what came with the outcome. Raises `SaslError`: the server has not proved that it knows the user."""


class Plain(ClientMechanism):
    """RFC 4616: the password in clear, so for encrypted connections."""

    name = "PLAIN"

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password

    def start(self) -> bytes:
        if "\0" in self._user + self._password:
            raise SaslError("a user's name or password has a NUL, which PLAIN cannot say")
        return f"\0{self._user}\0{self._password}".encode()


class Anonymous(ClientMechanism):
    """RFC 4505."""

    name = "ANONYMOUS"

    def start(self) -> bytes:
        return b""


class External(ClientMechanism):
    """RFC 4422, appendix A: the certificate of the TLS layer says who it is."""

    name = "EXTERNAL"

    def start(self) -> bytes:
        return b""


class XOAuth2(ClientMechanism):
    """An OAuth 2 access token, as Google and Microsoft define it."""

    name = "XOAUTH2"

    def __init__(self, user: str, token: str) -> None:
        self._user = user
        self._token = token

    def start(self) -> bytes:
        return f"user={self._user}\x01auth=Bearer {self._token}\x01\x01".encode()

    def respond(self, challenge: bytes) -> bytes:
        return b""  # the challenge is the server's error; the empty answer lets it send its outcome


class ScramSha256(ClientMechanism):
    """RFC 5802 and 7677: the password is never sent, and the server proves that it knows the user."""

    name = "SCRAM-SHA-256"

    def __init__(self, user: str, password: str, *, nonce: str | None = None) -> None:
        self._password = saslprep(password)
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._first_bare = f"n={saslprep(user).replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._server_signature: bytes | None = None
        self._is_proved = False

    def start(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def respond(self, challenge: bytes) -> bytes:
        if self._server_signature is not None:  # the server's last message may come as a challenge of its own
            self._prove(challenge)
            return b""
        first = _text(challenge)
        values = _attributes(first)
        try:
            nonce, salt, iterations = values["r"], b64decode(values["s"], validate=True), int(values["i"])
        except (KeyError, ValueError):
            raise SaslError("the server's challenge is no message of SCRAM") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError("the server's challenge is not an answer to this client's")
        if not SCRAM_ITERATIONS_MIN <= iterations <= SCRAM_ITERATIONS_MAX:
            raise SaslError(
                f"the server asks for {iterations} iterations: {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX} are accepted"
            )
        salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), salt, iterations)
        client_key = _mac(salted, b"Client Key")
        final = f"c=biws,r={nonce}"
        message = f"{self._first_bare},{first},{final}".encode()
        self._server_signature = _mac(_mac(salted, b"Server Key"), message)
        proof = _xor(client_key, _mac(hashlib.sha256(client_key).digest(), message))
        return f"{final},p={b64encode(proof).decode()}".encode()

    def finish(self, additional_data: bytes | None) -> None:
        if not self._is_proved:
            self._prove(additional_data or b"")

    def _prove(self, data: bytes) -> None:
        expected = f"v={b64encode(self._server_signature or b'').decode()}".encode()
        if self._server_signature is None or not hmac.compare_digest(expected, data):
            raise SaslError("the server has not proved that it knows the user's password")
        self._is_proved = True


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SaslError("a message of SASL is not UTF-8") from None


def _attributes(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def choose(offered: Iterable[str], wanted: Iterable[ClientMechanism]) -> ClientMechanism:
    """Return the first mechanism of `wanted` that the server offers.

    Raises:
        SaslError: there is none.
    """
    names = tuple(offered)
    wanted = tuple(wanted)
    for each in wanted:
        if each.name in names:
            return each
    raise SaslError(
        f"the server offers {', '.join(names) or 'no mechanism'}; with these credentials the client can use {', '.join(each.name for each in wanted)}"
    )


# ---------------------------------------------------------------------------------------------------------------- broker


class ServerMechanism(ABC):
    """The broker's side of one negotiation: `next` returns a challenge, or the login when all was said."""

    @abstractmethod
    def next(self, response: bytes | None) -> bytes | Login:
        """Take the client's response; None: it sent no initial one. Raises `SaslError`: it is malformed, or the proof is wrong."""

    @property
    def additional_data(self) -> bytes | None:
        """What goes with the outcome."""
        return None


class _PlainServer(ServerMechanism):
    def next(self, response: bytes | None) -> bytes | Login:
        if response is None:
            return b""
        parts = _text(response).split("\0")
        if len(parts) != 3 or not parts[1]:
            raise SaslError("the response is no message of PLAIN")
        authorization, user, password = parts
        if authorization not in ("", user):
            raise SaslError("a user acts in the name of another one, which is not supported")
        return PasswordLogin(user, password)


class _AnonymousServer(ServerMechanism):
    def next(self, response: bytes | None) -> bytes | Login:
        return AnonymousLogin(_text(response or b"")[:255])


class _ExternalServer(ServerMechanism):
    def next(self, response: bytes | None) -> bytes | Login:
        return b"" if response is None else CertificateLogin(_text(response))


class _XOAuth2Server(ServerMechanism):
    def next(self, response: bytes | None) -> bytes | Login:
        if response is None:
            return b""
        fields = dict(part.split("=", 1) for part in _text(response).split("\x01") if "=" in part)
        kind, _, token = fields.get("auth", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise SaslError("the response is no message of XOAUTH2")
        return TokenLogin(fields.get("user", ""), token)


class _ScramServer(ServerMechanism):
    def __init__(self, keys: Callable[[str], ScramKeys | None], decoy: bytes, nonce: str | None = None) -> None:
        self._keys_of = keys
        self._decoy = decoy
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._user = ""
        self._keys: ScramKeys | None = None
        self._first_bare = self._server_first = self._gs2 = ""
        self._signature: bytes | None = None

    @property
    def additional_data(self) -> bytes | None:
        return None if self._signature is None else f"v={b64encode(self._signature).decode()}".encode()

    def next(self, response: bytes | None) -> bytes | Login:
        if response is None:
            return b""
        return self._first(_text(response)) if not self._server_first else self._last(_text(response))

    def _first(self, text: str) -> bytes:
        binding, _, rest = text.partition(",")
        authorization, _, self._first_bare = rest.partition(",")
        values = _attributes(self._first_bare)
        if binding not in ("n", "y") or "n" not in values or not values.get("r"):
            raise SaslError("the response is no message of SCRAM without channel binding")
        name = values["n"]
        if "=" in name.replace("=2C", "").replace("=3D", ""):
            raise SaslError("the user's name is not escaped as SCRAM asks")
        self._user = name.replace("=2C", ",").replace("=3D", "=")
        if authorization not in ("", f"a={name}"):
            raise SaslError("a user acts in the name of another one, which is not supported")
        self._gs2 = f"{binding},{authorization},"
        self._keys = self._keys_of(self._user)
        # An unknown user gets a salt as well, always the same, so that guessing tells nobody which users there are.
        salt = self._keys.salt if self._keys else _mac(self._decoy, self._user.encode())[:16]
        iterations = self._keys.iterations if self._keys else SCRAM_ITERATIONS_MIN
        self._server_first = f"r={values['r']}{self._nonce},s={b64encode(salt).decode()},i={iterations}"
        return self._server_first.encode()

    def _last(self, text: str) -> Login:
        without_proof, separator, proof_text = text.rpartition(",p=")
        values = _attributes(without_proof)
        expected_binding = b64encode(self._gs2.encode()).decode()
        expected_nonce = _attributes(self._server_first)["r"]
        try:
            proof = b64decode(proof_text, validate=True)
        except ValueError:
            proof = b""
        if (
            not separator
            or values.get("c") != expected_binding
            or values.get("r") != expected_nonce
            or len(proof) != 32
        ):
            raise SaslError("the response is no message of SCRAM that answers the challenge")
        if self._keys is None:
            raise SaslError("the user or the password is wrong")
        message = f"{self._first_bare},{self._server_first},{without_proof}".encode()
        client_key = _xor(proof, _mac(self._keys.stored_key, message))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._keys.stored_key):
            raise SaslError("the user or the password is wrong")
        self._signature = _mac(self._keys.server_key, message)
        return ScramLogin(self._user)


_DECOY: Final = secrets.token_bytes(32)


def server_mechanism(name: str, keys: Callable[[str], ScramKeys | None] | None = None) -> ServerMechanism:
    """Return the broker's side of a mechanism.

    Args:
        name: as the client has chosen it.
        keys: returns what is stored of a user's password, None for an unknown user; for SCRAM alone.

    Raises:
        SaslError: there is no such mechanism.
    """
    match name:
        case "PLAIN":
            return _PlainServer()
        case "ANONYMOUS":
            return _AnonymousServer()
        case "EXTERNAL":
            return _ExternalServer()
        case "XOAUTH2":
            return _XOAuth2Server()
        case "SCRAM-SHA-256" if keys is not None:
            return _ScramServer(keys, _DECOY)
    raise SaslError(f"the mechanism {name[:40]!r} is not offered")
