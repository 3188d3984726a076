"""Anonymous users, client certificates, and several authenticators in a row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.errors import AccessDeniedError
from pyjms.testing import VirtualClock
from pyjms_provider.security.certificates import CertificateAuthenticator, NameFrom
from pyjms_provider.security.contracts import (
    CertificateCredentials,
    Credentials,
    TokenCredentials,
    TooManyAttemptsError,
)
from pyjms_provider.security.logins import AnonymousAuthenticator, CompositeAuthenticator, UncheckedLogins
from pyjms_provider.security.settings import CertificateSettings
from tests.provider.security.helpers import World, password

KEY = ec.generate_private_key(ec.SECP256R1())
CLOCK = VirtualClock()
NOW = dt.datetime.fromtimestamp(CLOCK.time_ms() / 1000, dt.UTC)
DAY = dt.timedelta(days=1)
PEER = "192.0.2.7:50000"


def certificate(
    *names: tuple[x509.ObjectIdentifier, str],
    alternatives: Sequence[x509.GeneralName] = (),
    start: dt.datetime = NOW - DAY,
) -> CertificateCredentials:
    subject = x509.Name([x509.NameAttribute(kind, text) for kind, text in names])
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Our CA")]),
        subject_name=subject,
        public_key=KEY.public_key(),
        serial_number=1,
        not_valid_before=start,
        not_valid_after=start + 2 * DAY,
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    made = builder.sign(KEY, hashes.SHA256())
    return CertificateCredentials(certificate=made.public_bytes(serialization.Encoding.DER))


ALICE = certificate(
    (NameOID.ORGANIZATION_NAME, "Example, Inc."),
    (NameOID.ORGANIZATIONAL_UNIT_NAME, "staff"),
    (NameOID.ORGANIZATIONAL_UNIT_NAME, "night"),
    (NameOID.COMMON_NAME, "alice"),
    alternatives=[
        x509.DNSName("alice.example.com"),
        x509.RFC822Name("alice@example.com"),
        x509.UniformResourceIdentifier("spiffe://example.com/alice"),
    ],
)


def name_of(credentials: Credentials | None, **rules: object) -> str:
    return CertificateAuthenticator(CertificateSettings(**rules), CLOCK).authenticate(credentials).name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name_from", "name"),
    [
        (NameFrom.COMMON_NAME, "alice"),
        (NameFrom.SUBJECT, "CN=alice,OU=night,OU=staff,O=Example\\, Inc."),
        (NameFrom.DNS_NAME, "alice.example.com"),
        (NameFrom.EMAIL, "alice@example.com"),
        (NameFrom.URI, "spiffe://example.com/alice"),
    ],
)
def test_the_rule_says_which_part_of_a_certificate_is_the_name(name_from: NameFrom, name: str) -> None:
    assert name_of(ALICE, name_from=name_from) == name


def test_organizational_units_can_be_groups() -> None:
    rules = CertificateSettings(are_units_groups=True)
    assert CertificateAuthenticator(rules, CLOCK).authenticate(ALICE).groups == {"staff", "night"}
    assert CertificateAuthenticator(CertificateSettings(), CLOCK).authenticate(ALICE).groups == set()


@pytest.mark.parametrize(
    ("credentials", "rules"),
    [
        (certificate((NameOID.COMMON_NAME, "alice"), (NameOID.COMMON_NAME, "root")), {}),
        (certificate((NameOID.ORGANIZATION_NAME, "alice")), {}),
        (certificate((NameOID.COMMON_NAME, "alice\nroot")), {}),
        (certificate((NameOID.COMMON_NAME, "alice\x00.example.com")), {}),
        (certificate((NameOID.COMMON_NAME, "alice")), {"name_from": NameFrom.EMAIL}),
        (certificate((NameOID.COMMON_NAME, "alice")), {"issuer": "CN=Another CA"}),
        (certificate(), {"name_from": NameFrom.SUBJECT}),
        (certificate((NameOID.COMMON_NAME, "alice"), start=NOW - 3 * DAY), {}),
        (certificate((NameOID.COMMON_NAME, "alice"), start=NOW + DAY), {}),
        (CertificateCredentials(certificate=b""), {}),
        (password("alice"), {}),
        (None, {}),
    ],
    ids=range(12),
)
def test_a_certificate_that_does_not_say_clearly_who_it_is_is_refused(
    credentials: Credentials | None, rules: dict[str, object]
) -> None:
    with pytest.raises(AccessDeniedError, match="credentials were refused"):
        name_of(credentials, **rules)


def test_the_issuer_can_be_asked_for() -> None:
    assert name_of(ALICE, issuer="CN=Our CA") == "alice"


@given(st.binary(max_size=200) | st.integers(0, 1000).map(lambda cut: ALICE.certificate[:cut]))
def test_bytes_that_are_no_certificate_are_refused(data: bytes) -> None:
    with pytest.raises(AccessDeniedError):
        name_of(CertificateCredentials(certificate=data[:-1]))


class TestAnonymous:
    def test_whoever_offers_nothing_is_let_in_as_one_principal(self) -> None:
        authenticator = AnonymousAuthenticator(groups=frozenset({"guests"}))
        principal = authenticator.authenticate(None)
        assert (principal.name, principal.groups) == ("anonymous", frozenset({"guests"}))
        assert authenticator.authenticate(password("", "")) == principal

    @pytest.mark.parametrize(
        "credentials", [password("alice"), password("alice", ""), password(""), TokenCredentials(token="")]
    )
    def test_wrong_credentials_do_not_look_right(self, credentials: Credentials) -> None:
        with pytest.raises(AccessDeniedError):
            AnonymousAuthenticator().authenticate(credentials)


class TestUncheckedLogins:
    @pytest.mark.parametrize(
        ("credentials", "login"),
        [
            (None, None),
            (password("", ""), None),
            (password("guest", "guest"), "guest"),
            (password("alice", ""), "alice"),
            (password("", "secret"), ""),
            (TokenCredentials(token="a.b.c"), "oauth2"),
            (ALICE, None),
        ],
    )
    def test_each_client_is_the_one_principal_and_what_it_sent_is_noted(
        self, credentials: Credentials | None, login: str | None
    ) -> None:
        nobody = AnonymousAuthenticator(groups=frozenset({"guests"}))
        principal = UncheckedLogins(nobody).authenticate(credentials)
        assert principal == nobody.authenticate(None)
        assert principal.unchecked_login == login
        assert "secret" not in repr(principal)

    def test_who_is_not_let_in_without_a_login_is_not_with_one(self) -> None:
        with pytest.raises(AccessDeniedError):
            UncheckedLogins(CompositeAuthenticator([])).authenticate(password("guest", "guest"))


class TestComposite:
    def test_the_first_that_knows_them_vouches(self) -> None:
        one, two = World(), World()
        one.users.add("alice")
        two.users.add("bob")
        authenticator = CompositeAuthenticator([one.authenticator(), two.authenticator(), AnonymousAuthenticator()])
        assert authenticator.authenticate(password("alice")).name == "alice"
        assert authenticator.authenticate(password("bob")).name == "bob"
        assert authenticator.authenticate(None).name == "anonymous"
        with pytest.raises(AccessDeniedError):
            authenticator.authenticate(password("bob", "wrong"))

    def test_only_those_that_judge_the_kind_are_asked(self) -> None:
        world = World()
        authenticator = CompositeAuthenticator(
            [world.authenticator(), CertificateAuthenticator(CertificateSettings(), CLOCK)]
        )
        assert authenticator.authenticate(ALICE).name == "alice"
        with pytest.raises(AccessDeniedError):
            authenticator.authenticate(password("oauth2", "a token"))
        assert world.hasher.checked == []
        assert authenticator.handles(ALICE)
        assert not authenticator.handles(None)

    def test_users_of_the_second_are_never_wrong_for_the_first(self) -> None:
        one, two = World(), World()
        one.users.add("alice")
        two.users.add("bob")
        authenticator = CompositeAuthenticator([one.authenticator(), two.authenticator()])
        for _ in range(100):
            authenticator.authenticate(password("bob"), peer=PEER)
        assert authenticator.authenticate(password("alice"), peer=PEER).name == "alice"
        for _ in range(100):
            with pytest.raises(AccessDeniedError):
                authenticator.authenticate(password("alice", "wrong"), peer=PEER)
        with pytest.raises(TooManyAttemptsError):
            authenticator.authenticate(password("alice", "wrong"), peer=PEER)

    def test_a_user_of_the_second_cannot_wipe_out_the_guesses_at_the_first(self) -> None:
        one, two = World(), World()
        one.users.add("alice")
        two.users.add("bob")
        authenticator = CompositeAuthenticator([one.authenticator(), two.authenticator()])
        for number in range(200):
            with pytest.raises(AccessDeniedError):
                authenticator.authenticate(password(f"guess{number}", "wrong"), peer=PEER)
            authenticator.authenticate(password("bob"), peer=PEER)
        guesses = len(one.hasher.checked)
        assert guesses <= 100  # 50, and those for bob that were counted before

    def test_without_any_nobody_is_let_in(self) -> None:
        for credentials in (None, password("alice")):
            with pytest.raises(AccessDeniedError):
                CompositeAuthenticator([]).authenticate(credentials)
