"""Bearer tokens: signed ones are checked, others asked about; what forgers have tried is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from socket import create_server
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from pyjms.spi.errors import AccessDeniedError
from pyjms.testing import VirtualClock
from pyjms_provider.security.contracts import (
    LogInsBusyError,
    PasswordCredentials,
    TokenCredentials,
    TooManyAttemptsError,
)
from pyjms_provider.security.json_web_tokens import JwtAuthenticator
from pyjms_provider.security.oauth2 import Endpoint, EndpointError, IntrospectionAuthenticator
from pyjms_provider.security.settings import IntrospectionSettings, JwtSettings
from tests.provider.security.helpers import password
from tests.provider.security.token_server import TokenServer

RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
SMALL_RSA = rsa.generate_private_key(65537, 1024)
EC = ec.generate_private_key(ec.SECP256R1())
EC384 = ec.generate_private_key(ec.SECP384R1())
ED = ed25519.Ed25519PrivateKey.generate()
ISSUER = "https://id.example.com/"
AUDIENCE = "pyjms-shop"


def published(name: str | None, key: Any, **more: str) -> dict[str, str]:
    kind = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm}
    algorithm: Any = next((a for k, a in kind.items() if isinstance(key, k)), OKPAlgorithm)
    entry: dict[str, str] = json.loads(algorithm.to_jwk(key.public_key()))
    return {**entry, **({} if name is None else {"kid": name}), **more}


KEYS = {
    "keys": [
        published("rsa", RSA),
        published("ec", EC),
        published("ed", ED),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"},
    ]
}


class World:
    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        self.file = folder / "keys.json"
        self.file.write_text(json.dumps(KEYS))
        self.settings = JwtSettings(issuer=ISSUER, audience=AUDIENCE, keys_file=str(self.file))

    def claims(self, **more: object) -> dict[str, object]:
        now_s = self.clock.time_ms() // 1000
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now_s + 60, "iat": now_s, **more}
        return {name: value for name, value in claims.items() if value is not ...}

    def token(self, key: Any = RSA, algorithm: str = "RS256", name: str | None = "rsa", **more: object) -> str:
        headers = {} if name is None else {"kid": name}
        return jwt.encode(self.claims(**more), key, algorithm, headers)

    def name(self, token: str, **chosen: Any) -> str:
        authenticator = JwtAuthenticator(replace(self.settings, **chosen), self.clock)
        return authenticator.authenticate(TokenCredentials(token=token)).name


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def raw_token(header: object, payload: object, signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(payload).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


class TestSignedTokens:
    @pytest.mark.parametrize(
        ("key", "algorithm", "name"),
        [(RSA, "RS256", "rsa"), (EC, "ES256", "ec"), (ED, "EdDSA", "ed"), (RSA, "RS256", None)],
    )
    def test_a_token_that_the_issuer_signed_is_its_subject(
        self, world: World, key: Any, algorithm: str, name: str
    ) -> None:
        assert world.name(world.token(key, algorithm, name)) == "alice"

    def test_a_client_that_knows_only_passwords_says_oauth2(self, world: World) -> None:
        authenticator = JwtAuthenticator(world.settings, world.clock)
        credentials = PasswordCredentials(user_name="oauth2", password=world.token())
        assert authenticator.handles(credentials)
        assert authenticator.authenticate(credentials).name == "alice"
        assert not authenticator.handles(password("alice"))
        for wrong in (None, password("alice", world.token())):
            with pytest.raises(AccessDeniedError):
                authenticator.authenticate(wrong)

    def test_claims_give_name_and_groups(self, world: World) -> None:
        token = world.token(groups=["staff", 5, "night"], realm={"roles": ["boss"]}, email="a@example.com", one="only")
        for claim, groups in [
            ("groups", {"staff", "night"}),
            ("realm.roles", {"boss"}),
            ("one", {"only"}),
            ("", set()),
            ("x.y", set()),
        ]:
            authenticator = JwtAuthenticator(
                replace(world.settings, groups_claim=claim, user_claim="email"), world.clock
            )
            principal = authenticator.authenticate(TokenCredentials(token=token))
            assert (principal.name, principal.groups, principal.provider) == ("a@example.com", frozenset(groups), "jwt")

    @pytest.mark.parametrize(
        "claims",
        [
            {"exp": ...},
            {"exp": 1},
            {"exp": "tomorrow"},
            {"exp": True},
            {"exp": float("inf")},
            {"nbf": 99999999999},
            {"iat": 99999999999},
            {"iss": "https://evil.example.com/"},
            {"iss": ISSUER + "x"},
            {"iss": ...},
            {"aud": "another"},
            {"aud": ["a", "b"]},
            {"aud": AUDIENCE + "x"},
            {"aud": ...},
            {"sub": ...},
            {"sub": ""},
            {"sub": "a\nb"},
            {"sub": "x" * 2000},
            {"groups": ["g"] * 2000},
        ],
        ids=str,
    )
    def test_a_token_that_is_not_for_now_or_not_for_us_is_refused(self, world: World, claims: dict[str, Any]) -> None:
        with pytest.raises(AccessDeniedError, match="credentials were refused"):
            world.name(world.token(**claims))

    def test_the_injected_clock_decides_about_expiry_with_some_leeway(self, world: World) -> None:
        token = world.token()
        world.clock.advance(89_000)
        assert world.name(token) == "alice"
        world.clock.advance(1_000)
        with pytest.raises(AccessDeniedError):
            world.name(token)

    def test_scopes_can_be_asked_for(self, world: World) -> None:
        good: list[dict[str, Any]] = [{"scope": "read pyjms"}, {"scp": ["pyjms"]}, {"scp": "pyjms"}]
        for more in good:
            assert world.name(world.token(**more), required_scopes=("pyjms",)) == "alice"
        bad: list[dict[str, Any]] = [{}, {"scope": "pyjms2"}, {"scope": 5}]
        for more in bad:
            with pytest.raises(AccessDeniedError):
                world.name(world.token(**more), required_scopes=("pyjms",))

    def test_a_token_without_signature_is_refused(self, world: World) -> None:
        for header in (
            {"alg": "none"},
            {"alg": "None", "kid": "rsa"},
            {"alg": ""},
            {},
            {"alg": ["RS256"]},
            {"alg": "RS256", "kid": "rsa"},
        ):
            with pytest.raises(AccessDeniedError):
                world.name(raw_token(header, world.claims()))

    def test_a_public_key_does_not_serve_as_a_shared_secret(self, world: World) -> None:
        public = RSA.public_key()
        spki = serialization.PublicFormat.SubjectPublicKeyInfo
        for secret in (
            public.public_bytes(serialization.Encoding.PEM, spki),
            public.public_bytes(serialization.Encoding.DER, spki),
            json.dumps(published("rsa", RSA)).encode(),
        ):
            for name in ("rsa", "oct"):
                unsigned = raw_token({"alg": "HS256", "kid": name}, world.claims()).rpartition(".")[0]
                mac = base64.urlsafe_b64encode(hmac.digest(secret, unsigned.encode(), hashlib.sha256)).rstrip(b"=")
                with pytest.raises(AccessDeniedError):
                    world.name(f"{unsigned}.{mac.decode()}")
        with pytest.raises(ValueError, match="HS256 will not do"):
            JwtAuthenticator(replace(world.settings, algorithms=("RS256", "HS256")), world.clock)
        with pytest.raises(ValueError, match="none will not do"):
            JwtAuthenticator(replace(world.settings, algorithms=()), world.clock)

    def test_keys_of_others_are_refused_whatever_the_token_says_about_them(self, world: World) -> None:
        for header in (
            {"kid": "rsa"},
            {"kid": "unknown"},
            {"jwk": published("rsa", OTHER_RSA)},
            {"jku": "http://127.0.0.1:1/keys", "kid": "rsa"},
            {"x5u": "http://127.0.0.1:1/keys"},
            {"kid": "../../etc/passwd"},
        ):
            with pytest.raises(AccessDeniedError):
                world.name(jwt.encode(world.claims(), OTHER_RSA, "RS256", header))
        with pytest.raises(AccessDeniedError):
            world.name(jwt.encode(world.claims(), RSA, "RS256", {"kid": "rsa", "crit": ["exp"]}))

    @pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")  # of the forger's library
    @pytest.mark.parametrize(
        ("entry", "key", "algorithm"),
        [
            (published("a", RSA, alg="PS256"), RSA, "RS256"),
            (published("a", RSA, use="enc"), RSA, "RS256"),
            (published("a", SMALL_RSA), SMALL_RSA, "RS256"),
            (published("a", EC384), EC384, "ES384"),
            ({**published("a", RSA), "d": "AAAA"}, RSA, "RS256"),
            ({"kty": "RSA", "kid": "a", "n": "!", "e": 5}, RSA, "RS256"),
            ({"kty": 5, "kid": "a"}, RSA, "RS256"),
        ],
        ids=range(7),
    )
    def test_a_key_serves_only_what_it_was_made_for(
        self, world: World, entry: dict[str, object], key: Any, algorithm: str
    ) -> None:
        world.file.write_text(json.dumps({"keys": [entry, published("other", ED)]}))
        with pytest.raises(AccessDeniedError, match="credentials were refused"):
            world.name(world.token(key, algorithm, "a"))
        world.file.write_text(json.dumps({"keys": [published("a", RSA, alg="RS256", use="sig")]}))
        assert world.name(world.token(RSA, "RS256", "a")) == "alice"

    @settings(max_examples=200)
    @given(st.text() | st.from_regex(r"\A[A-Za-z0-9_-]{0,20}\.[A-Za-z0-9_-]{0,20}\.[A-Za-z0-9_-]{0,20}\Z"))
    def test_any_text_is_refused(self, tmp_path_factory: pytest.TempPathFactory, token: str) -> None:
        with pytest.raises(AccessDeniedError):
            World(tmp_path_factory.mktemp("w")).name(token)

    def test_huge_and_deep_tokens_are_refused(self, world: World) -> None:
        deep = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 5000).decode()
        for token in ("x" * 10_000_000, "a." * 8000, f"{deep}.e30.AAAA", world.token(junk="x" * 20_000)):
            with pytest.raises(AccessDeniedError):
                world.name(token)

    def test_what_is_altered_is_noticed(self, world: World) -> None:
        header, payload, signature = world.token().split(".")
        forged = raw_token({}, world.claims(sub="root")).split(".")[1]
        for token in (
            f"{header}.{forged}.{signature}",
            f"{header}.{payload}.",
            f"{header}.{payload}.{signature[::-1]}",
        ):
            with pytest.raises(AccessDeniedError):
                world.name(token)

    def test_neither_logs_nor_errors_show_a_token(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        token = world.token(iss="https://evil.example.com/\nPYJMS-AUDIT-1")
        with pytest.raises(AccessDeniedError) as caught:
            world.name(token)
        shown = caplog.text + caught.value.reason
        assert "PYJMS-SECURITY-7" in shown
        assert not [part for part in token.split(".") if part in shown]

    @pytest.mark.parametrize(
        "chosen",
        [
            {"issuer": ""},
            {"audience": ""},
            {"keys_file": ""},
            {"keys_url": "https://x/"},
            {"keys_file": "", "keys_url": "ftp://x/"},
        ],
    )
    def test_settings_that_would_let_in_others_are_refused(self, world: World, chosen: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"needed|either|no URL"):
            JwtAuthenticator(replace(world.settings, **chosen), world.clock)


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer().running() as server:
        yield server


class TestKeysFromAUrl:
    @pytest.fixture
    def authenticator(self, world: World, server: TokenServer) -> JwtAuthenticator:
        server.says(KEYS)
        return JwtAuthenticator(replace(world.settings, keys_file="", keys_url=server.url), world.clock)

    def login(self, authenticator: JwtAuthenticator, token: str) -> str:
        return authenticator.authenticate(TokenCredentials(token=token)).name

    def test_keys_are_fetched_once_and_again_when_they_are_old(
        self, world: World, server: TokenServer, authenticator: JwtAuthenticator
    ) -> None:
        for _ in range(5):
            self.login(authenticator, world.token())
        assert len(server.asked) == 1
        assert server.asked[0][0] == "/path?x=1"
        world.clock.advance(3_600_000)
        self.login(authenticator, world.token())
        assert len(server.asked) == 2

    def test_a_new_key_is_fetched_at_once_but_forged_names_do_not_hammer_the_server(
        self, world: World, server: TokenServer, authenticator: JwtAuthenticator
    ) -> None:
        self.login(authenticator, world.token())
        world.clock.advance(30_000)
        server.says({"keys": [*KEYS["keys"], published("new", OTHER_RSA)]})
        assert self.login(authenticator, world.token(OTHER_RSA, name="new")) == "alice"
        for number in range(50):
            with pytest.raises(AccessDeniedError):
                self.login(authenticator, world.token(OTHER_RSA, name=f"forged{number}"))
        assert len(server.asked) == 2

    @pytest.mark.parametrize(
        "answer", [(500, b""), (200, b"nonsense"), (200, b"[]"), (200, b'{"keys":[]}'), (301, b"")]
    )
    def test_a_server_that_fails_leaves_the_old_keys_in_force(
        self,
        world: World,
        server: TokenServer,
        authenticator: JwtAuthenticator,
        answer: tuple[int, bytes],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        self.login(authenticator, world.token())
        server.answer = lambda form: (*answer, {"Location": "http://127.0.0.1:1/"})
        world.clock.advance(3_600_000)
        assert self.login(authenticator, world.token()) == "alice"
        assert "PYJMS-SECURITY-3" in caplog.text

    def test_without_any_keys_yet_the_client_may_try_again(
        self, world: World, server: TokenServer, authenticator: JwtAuthenticator
    ) -> None:
        server.says({}, 503)
        for _ in range(3):
            with pytest.raises(LogInsBusyError):
                self.login(authenticator, world.token())
        assert len(server.asked) == 1
        server.says(KEYS)
        world.clock.advance(30_000)
        assert self.login(authenticator, world.token()) == "alice"


class TestIntrospection:
    @pytest.fixture
    def world(self, tmp_path: Path, server: TokenServer) -> World:
        return World(tmp_path)

    @pytest.fixture
    def chosen(self, server: TokenServer) -> IntrospectionSettings:
        return IntrospectionSettings(
            url=server.url, client_id="broker", client_secret="s3cret&=", user_claim="username"
        )

    def login(self, authenticator: IntrospectionAuthenticator, token: str = "t0ken&=") -> str:
        return authenticator.authenticate(TokenCredentials(token=token), peer="192.0.2.7:1").name

    def test_the_server_is_asked_with_our_credentials(self, server: TokenServer, chosen: IntrospectionSettings) -> None:
        server.says({"active": True, "username": "alice", "groups": ["staff"]})
        principal = IntrospectionAuthenticator(chosen, VirtualClock()).authenticate(TokenCredentials(token="t0ken&="))
        assert (principal.name, principal.groups) == ("alice", frozenset({"staff"}))
        _, authorization, form = server.asked[0]
        assert authorization == "Basic " + base64.b64encode(b"broker:s3cret%26%3D").decode()
        assert form["token"] == ["t0ken&="]

    @pytest.mark.parametrize(
        "answer",
        [
            {"active": False, "username": "alice"},
            {"active": "true", "username": "alice"},
            {"username": "alice"},
            {"active": True},
            {"active": True, "username": "alice", "exp": 1},
            {"active": True, "username": "alice", "iss": "x"},
            {"active": True, "username": "alice", "iss": ISSUER, "aud": "other"},
            [],
            "active",
        ],
        ids=str,
    )
    def test_whatever_is_not_a_clear_yes_is_a_no(
        self, server: TokenServer, chosen: IntrospectionSettings, answer: object
    ) -> None:
        server.says(answer)
        with pytest.raises(AccessDeniedError, match="credentials were refused"):
            self.login(
                IntrospectionAuthenticator(
                    replace(
                        chosen,
                        issuer=ISSUER if "iss" in str(answer) else "",
                        audience=AUDIENCE if "aud" in str(answer) else "",
                    ),
                    VirtualClock(),
                )
            )

    def test_a_good_answer_is_remembered_until_it_is_old_or_the_token_expires(
        self, server: TokenServer, chosen: IntrospectionSettings
    ) -> None:
        clock = VirtualClock()
        authenticator = IntrospectionAuthenticator(chosen, clock)
        server.says({"active": True, "username": "alice"})
        for _ in range(100):
            self.login(authenticator)
        assert len(server.asked) == 1
        clock.advance(60_000)
        server.says({"active": True, "username": "alice", "exp": clock.time_ms() / 1000 + 5})
        self.login(authenticator)
        assert len(server.asked) == 2
        clock.advance(5_000)
        with pytest.raises(AccessDeniedError):
            self.login(authenticator)

    def test_a_revoked_token_counts_no_longer_where_the_clock_is_put_back(
        self, server: TokenServer, chosen: IntrospectionSettings
    ) -> None:
        class PutBack(VirtualClock):
            by_ms = 0

            def time_ms(self) -> int:
                return super().time_ms() - self.by_ms

        clock = PutBack()
        authenticator = IntrospectionAuthenticator(chosen, clock)
        server.says({"active": True, "username": "alice"})
        self.login(authenticator)
        clock.by_ms = 3_600_000
        clock.advance(60_000)
        server.says({"active": False})
        with pytest.raises(AccessDeniedError):
            self.login(authenticator)

    def test_wrong_tokens_at_speed_do_not_hammer_the_server(
        self, server: TokenServer, chosen: IntrospectionSettings
    ) -> None:
        authenticator = IntrospectionAuthenticator(chosen, VirtualClock())
        server.says({"active": True, "username": "alice"})
        self.login(authenticator, "good")
        server.says({"active": False})
        for number in range(100):
            with pytest.raises(AccessDeniedError):
                self.login(authenticator, f"forged{number}")
        assert len(server.asked) == 51
        with pytest.raises(TooManyAttemptsError):
            self.login(authenticator, "forged")
        assert self.login(authenticator, "good") == "alice"

    def test_a_server_that_fails_is_no_fault_of_the_client(
        self, server: TokenServer, chosen: IntrospectionSettings, caplog: pytest.LogCaptureFixture
    ) -> None:
        clock = VirtualClock()
        authenticator = IntrospectionAuthenticator(chosen, clock)
        server.says({}, 500)
        for _ in range(100):
            with pytest.raises(LogInsBusyError):
                self.login(authenticator)
        assert caplog.text.count("PYJMS-SECURITY-5") == 1
        clock.advance(60_000)
        with pytest.raises(LogInsBusyError):
            self.login(authenticator)
        assert caplog.text.count("PYJMS-SECURITY-5") == 2
        server.says({"active": True, "username": "alice"})
        assert self.login(authenticator) == "alice"
        assert "s3cret" not in caplog.text + repr(chosen)
        assert "t0ken" not in caplog.text

    def test_huge_tokens_are_refused_without_a_question(
        self, server: TokenServer, chosen: IntrospectionSettings
    ) -> None:
        for token in ("", "x" * 20_000, "é"):
            with pytest.raises(AccessDeniedError):
                self.login(IntrospectionAuthenticator(chosen, VirtualClock()), token)
        assert server.asked == []


class TestEndpoint:
    @pytest.mark.parametrize(
        "url",
        [
            "http://example.com/",
            "ftp://127.0.0.1/",
            "file:///etc/passwd",
            "https://",
            "https://a:b@example.com/",
            "",
            "http://127.0.0.1.evil.example/",
        ],
    )
    def test_urls_that_leak_or_are_none_are_refused(self, url: str) -> None:
        with pytest.raises(ValueError, match=r"no URL|unencrypted"):
            Endpoint(url, timeout_ms=1, clock=VirtualClock())

    def test_a_redirection_is_not_followed(self, server: TokenServer) -> None:
        server.answer = lambda form: (302, b"", {"Location": server.url})
        with pytest.raises(EndpointError, match="answered 302"):
            Endpoint(server.url, timeout_ms=5000, clock=VirtualClock()).ask()
        assert len(server.asked) == 1

    def test_an_endless_answer_and_a_deep_one_are_cut(self, server: TokenServer) -> None:
        endpoint = Endpoint(server.url, timeout_ms=5000, clock=VirtualClock())
        server.answer = lambda form: (200, b" " * 3_000_000, {})
        with pytest.raises(EndpointError, match="more than"):
            endpoint.ask()
        server.answer = lambda form: (200, b"[" * 500_000, {})
        with pytest.raises(EndpointError, match="not answer in JSON"):
            endpoint.ask()

    def test_a_slow_answer_is_cut_by_the_clock(self, server: TokenServer) -> None:
        clock = VirtualClock()

        def slow(form: dict[str, list[str]]) -> tuple[int, bytes, dict[str, str]]:
            clock.advance(6000)
            return 200, b"{}", {}

        server.answer = slow
        with pytest.raises(EndpointError, match="took longer than 5000 ms"):
            Endpoint(server.url, timeout_ms=5000, clock=clock).ask()

    @pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\n\r\n"])
    def test_a_server_that_drips_is_cut_by_the_clock(self, begins: bytes) -> None:
        """Also within its first line, and within a header."""
        clock = VirtualClock()
        with create_server(("127.0.0.1", 0)) as listener:

            def drip() -> None:
                peer, _ = listener.accept()
                with peer, suppress(ConnectionError):
                    peer.recv(65536)
                    peer.sendall(begins)
                    for _ in range(70_000):  # more than a header may have
                        clock.advance(1000)
                        peer.sendall(b" ")

            dripping = Thread(target=drip)
            dripping.start()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            with pytest.raises(EndpointError, match="took longer than 5000 ms"):
                Endpoint(url, timeout_ms=5000, clock=clock).ask()
            dripping.join(20)
            assert clock.monotonic_ms() < 70_000_000

    def test_nobody_there_is_an_error(self) -> None:
        with pytest.raises(EndpointError, match="cannot be asked"):
            Endpoint("http://127.0.0.1:1/", timeout_ms=500, clock=VirtualClock()).ask()
