"""Who logs in with a password; and what an attacker learns, costs and breaks by trying: nothing."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Barrier, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramClient, ScramMechanism

from pyjms.spi.errors import AccessDeniedError, ResourceError
from pyjms_provider.security.contracts import LogInsBusyError, TokenCredentials, TooManyAttemptsError
from pyjms_provider.security.passwords import (
    HashSettings,
    LoginSettings,
    PasswordAuthenticator,
    PasswordHasher,
    Scheme,
    ScramVerifier,
    User,
    VerifierError,
    scheme_of,
)
from tests.provider.security.helpers import CHEAP, GOOD, CountingHasher, World, password

PEER = "192.0.2.7:50000"


@pytest.fixture
def world() -> World:
    world = World()
    world.users.add("alice", GOOD, Scheme.ARGON2ID, "staff")
    return world


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(AccessDeniedError) as caught:
        call()
    return caught.value.reason


def test_the_right_password_gives_a_principal_with_its_groups(world: World) -> None:
    principal = world.authenticator().authenticate(password("alice"), peer=PEER)
    assert (principal.name, principal.groups, principal.provider) == ("alice", frozenset({"staff"}), "users")


@settings(max_examples=30, deadline=None)
@given(st.text(st.characters(exclude_categories=()), min_size=1), st.sampled_from(Scheme))
def test_any_text_can_be_a_password_and_no_other_text_is_it(text: str, scheme: Scheme) -> None:
    hasher = PasswordHasher(CHEAP)
    verifier = hasher.make(text, scheme)
    assert hasher.accepts(verifier, text)
    assert not hasher.accepts(verifier, text + "x")
    assert not hasher.accepts(verifier, "")
    if scheme is Scheme.ARGON2ID or (text.isascii() and text.isprintable()):  # SASLprep makes some texts equal
        assert not hasher.accepts(verifier, text[:-1])


def test_a_scram_password_of_characters_that_saslprep_drops_is_not_the_empty_one() -> None:
    hasher = PasswordHasher(CHEAP)
    verifier = hasher.make("\xad" * 8, Scheme.SCRAM_SHA_256)
    assert hasher.accepts(verifier, "\xad" * 8)
    assert not hasher.accepts(verifier, "")


@pytest.mark.parametrize(
    "schemes", [[Scheme.ARGON2ID], [Scheme.SCRAM_SHA_256], [Scheme.ARGON2ID, Scheme.SCRAM_SHA_256]]
)
def test_known_and_unknown_users_cost_the_same_hashes_and_hear_the_same(schemes: list[Scheme]) -> None:
    world = World()
    for scheme in schemes:
        world.users.add(scheme.value, scheme=scheme)
    authenticator = world.authenticator()
    heard = set()
    costs = []
    for name in [*(scheme.value for scheme in schemes), "nobody", ""]:
        world.hasher.checked.clear()
        heard.add(refusal(partial(authenticator.authenticate, password(name, "wrong"), peer=PEER)))
        costs.append(sorted(scheme.value for scheme in world.hasher.checked))
    assert costs == [sorted(scheme.value for scheme in schemes)] * len(costs)
    assert len(heard) == 1


def test_a_server_without_users_computes_a_hash_all_the_same() -> None:
    world = World()
    refusal(lambda: world.authenticator().authenticate(password("nobody"), peer=PEER))
    assert world.hasher.checked == [Scheme.ARGON2ID]


@pytest.mark.parametrize(
    ("name", "text"), [("a" * 256, GOOD), ("alice", "p" * 1025), ("a" * 10_000_000, "p" * 10_000_000)]
)
def test_huge_credentials_are_refused_before_any_work(world: World, name: str, text: str) -> None:
    refusal(lambda: world.authenticator().authenticate(password(name, text), peer=PEER))
    assert world.hasher.checked == []


def test_only_passwords_are_judged(world: World) -> None:
    authenticator = world.authenticator()
    assert "who you are" in refusal(lambda: authenticator.authenticate(None))
    refusal(lambda: authenticator.authenticate(TokenCredentials(token="t")))
    assert authenticator.handles(password("alice"))
    assert not authenticator.handles(password("oauth2"))
    assert not authenticator.handles(None)


def test_wrong_passwords_at_speed_cost_a_bounded_number_of_hashes(world: World) -> None:
    authenticator = world.authenticator()
    for _ in range(1000):
        refusal(lambda: authenticator.authenticate(password("alice", "wrong"), peer=PEER))
    assert len(world.hasher.checked) == 10
    world.clock.advance(5_000)
    for _ in range(1000):
        refusal(lambda: authenticator.authenticate(password("alice", "wrong"), peer=PEER))
    assert len(world.hasher.checked) == 11


def test_many_names_at_speed_cost_a_bounded_number_of_hashes(world: World) -> None:
    authenticator = world.authenticator()
    for number in range(1000):
        refusal(partial(authenticator.authenticate, password(f"user{number}"), peer=PEER))
    assert len(world.hasher.checked) == 50


def test_guesses_from_one_place_leave_the_user_free_elsewhere_and_there_after_a_while(world: World) -> None:
    authenticator = world.authenticator()
    for _ in range(100):
        refusal(lambda: authenticator.authenticate(password("alice", "wrong"), peer=PEER))
    assert authenticator.authenticate(password("alice"), peer="198.51.100.1:1").name == "alice"
    with pytest.raises(TooManyAttemptsError) as caught:
        # Not known by heart here: another authenticator, as after a restart, has the same to say.
        _blocked(world).authenticate(password("alice"), peer=PEER)
    assert 0 < caught.value.wait_ms <= 5_001
    assert pickle.loads(pickle.dumps(caught.value)).wait_ms == caught.value.wait_ms
    blocked = _blocked(world)
    world.clock.advance(6_000)
    assert blocked.authenticate(password("alice"), peer=PEER).name == "alice"


def _blocked(world: World) -> PasswordAuthenticator:
    authenticator = world.authenticator()
    for _ in range(100):
        refusal(lambda: authenticator.authenticate(password("alice", "wrong"), peer=PEER))
    return authenticator


def test_a_user_who_was_right_lately_comes_in_while_somebody_guesses_beside_it(world: World) -> None:
    authenticator = world.authenticator()
    authenticator.authenticate(password("alice"), peer=PEER)
    for _ in range(100):
        refusal(lambda: authenticator.authenticate(password("alice", "wrong"), peer=PEER))
    assert authenticator.authenticate(password("alice"), peer=PEER).name == "alice"


def at_once(call: Callable[[], object]) -> None:
    """Call it on 60 threads, which begin together."""
    start = Barrier(60)

    def run() -> None:
        start.wait(10)
        call()

    threads = [Thread(target=run) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)


def test_many_right_ones_at_once_are_no_guesses_and_cost_a_hash_or_two(world: World) -> None:
    authenticator = world.authenticator()
    names: list[str] = []
    at_once(lambda: names.append(authenticator.authenticate(password("alice"), peer=PEER).name))
    assert names == ["alice"] * 60
    assert 1 <= len(world.hasher.checked) <= 2  # so many are computed at a time


def test_many_wrong_ones_at_once_do_not_slip_through(world: World) -> None:
    authenticator = world.authenticator()
    heard: list[str] = []
    at_once(lambda: heard.append(refusal(partial(authenticator.authenticate, password("alice", "wrong"), peer=PEER))))
    assert len(heard) == 60
    assert len(world.hasher.checked) == 10


def test_right_passwords_are_never_too_many(world: World) -> None:
    authenticator = world.authenticator(LoginSettings(remembered=0))
    for _ in range(200):
        authenticator.authenticate(password("alice"), peer=PEER)
    assert len(world.hasher.checked) == 200


def test_a_right_password_is_recognised_for_a_while_without_a_hash(world: World) -> None:
    authenticator = world.authenticator()
    for _ in range(1000):
        authenticator.authenticate(password("alice"), peer=PEER)
    assert len(world.hasher.checked) == 1
    world.clock.advance(300_000)
    authenticator.authenticate(password("alice"), peer=PEER)
    assert len(world.hasher.checked) == 2


def test_what_is_recognised_ends_with_the_password_and_with_the_user(world: World) -> None:
    authenticator = world.authenticator()
    authenticator.authenticate(password("alice"), peer=PEER)
    world.users.add("alice", "another one")
    refusal(lambda: authenticator.authenticate(password("alice"), peer=PEER))
    authenticator.authenticate(password("alice", "another one"), peer=PEER)
    del world.users.users["alice"]
    refusal(lambda: authenticator.authenticate(password("alice", "another one"), peer=PEER))


def test_only_so_many_passwords_are_recognised(world: World) -> None:
    authenticator = world.authenticator(LoginSettings(remembered=2))
    for name in ("bob", "carol"):
        world.users.add(name)
    for name in ("alice", "bob", "carol", "bob", "carol"):
        authenticator.authenticate(password(name), peer=PEER)
    assert len(world.hasher.checked) == 3
    authenticator.authenticate(password("alice"), peer=PEER)
    assert len(world.hasher.checked) == 4


def test_no_digest_in_memory_serves_for_another_user_with_the_same_password(world: World) -> None:
    world.users.add("bob", "another one")
    world.users.users["bob"] = replace(world.users.users["bob"], verifier=world.users.users["alice"].verifier)
    authenticator = world.authenticator()
    authenticator.authenticate(password("alice"), peer=PEER)
    authenticator.authenticate(password("bob"), peer=PEER)
    assert len(world.hasher.checked) == 2


def test_groups_are_those_of_now_even_for_a_recognised_password(world: World) -> None:
    authenticator = world.authenticator()
    authenticator.authenticate(password("alice"), peer=PEER)
    world.users.users["alice"] = replace(world.users.users["alice"], groups=frozenset({"fired"}))
    assert authenticator.authenticate(password("alice"), peer=PEER).groups == {"fired"}


def test_a_hash_of_other_cost_is_made_anew_at_the_log_in(world: World) -> None:
    world.hasher = CountingHasher(replace(CHEAP, passes=2))
    old = world.users.users["alice"].verifier
    world.authenticator().authenticate(password("alice"), peer=PEER)
    new = world.users.users["alice"].verifier
    assert new != old
    assert world.hasher.is_current(new)
    world.authenticator().authenticate(password("alice"), peer=PEER)
    assert world.users.users["alice"].verifier == new
    assert world.users.users["alice"].groups == {"staff"}


def test_a_wrong_password_renews_nothing(world: World) -> None:
    world.hasher = CountingHasher(replace(CHEAP, passes=2))
    old = world.users.users["alice"].verifier
    refusal(lambda: world.authenticator().authenticate(password("alice", "wrong"), peer=PEER))
    assert world.users.users["alice"].verifier == old


def test_a_hash_that_cannot_be_renewed_still_lets_in_and_the_log_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(user: User, verifier: str) -> None:
        raise ResourceError("the disk is read-only")

    monkeypatch.setattr(world.users, "renew", fail)
    world.hasher = CountingHasher(replace(CHEAP, passes=2))
    world.authenticator().authenticate(password("alice"), peer=PEER)
    assert "PYJMS-SECURITY-2" in caplog.text
    assert "read-only" in caplog.text


def test_only_so_many_passwords_are_checked_at_a_time(world: World) -> None:
    inside, go_on = Barrier(3), Barrier(3)

    class Slow(CountingHasher):
        def accepts(self, verifier: str, password: str) -> bool:
            inside.wait(10)
            go_on.wait(10)
            return super().accepts(verifier, password)

    world.hasher = Slow()
    world.authenticator()
    authenticator = world.authenticator(LoginSettings(concurrent=2, patience_ms=0))
    threads = [Thread(target=lambda: authenticator.authenticate(password("alice"), peer=PEER)) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait(10)
    with pytest.raises(LogInsBusyError):
        authenticator.authenticate(password("alice"), peer=PEER)
    go_on.wait(10)
    for thread in threads:
        thread.join(10)
    assert len(world.hasher.checked) == 2


def test_neither_logs_nor_errors_nor_reprs_show_a_password_or_a_hash(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    authenticator = world.authenticator()
    credentials = password("alice", "s3cret-guess")
    heard = [refusal(lambda: authenticator.authenticate(credentials, peer=PEER)) for _ in range(20)]
    user = world.users.users["alice"]
    shown = caplog.text + "".join(heard) + repr(credentials) + repr(user) + repr(authenticator.__dict__)
    assert "PYJMS-SECURITY-4" in caplog.text
    assert "s3cret-guess" not in shown
    assert user.verifier not in shown


def test_a_user_name_cannot_forge_lines_of_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    authenticator = world.authenticator()
    for _ in range(10):
        refusal(lambda: authenticator.authenticate(password("x\nPYJMS-AUDIT-1 granted", "w"), peer=PEER))
    assert len(caplog.messages) == 1
    assert "\n" not in caplog.messages[0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tiger", "not a hash"),
        ("", "not a hash"),
        ("$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAAAAA", "not a hash"),
        ("$argon2id$nonsense", "damaged"),
        ("$argon2id$v=19$m=99999999,t=1,p=1$c2FsdHNhbHQ$AAAAAAA", "1 GiB"),
        ("$argon2id$v=19$m=8,t=9999,p=1$c2FsdHNhbHQ$AAAAAAA", "100 passes"),
        ("SCRAM-SHA-256$4096:AAAA", "damaged"),
        ("SCRAM-SHA-256$1:" + "A" * 24 + "$" + "A" * 43 + "=:" + "A" * 43 + "=", "damaged"),
    ],
)
def test_what_is_no_hash_or_would_cost_too_much_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(VerifierError, match=complaint):
        scheme_of(text)


def test_the_default_cost_is_what_owasp_recommends_and_nothing_less() -> None:
    assert (HashSettings().memory_kib, HashSettings().passes, HashSettings().lanes) == (19456, 2, 1)
    assert scheme_of(PasswordHasher().make("tiger")) is Scheme.ARGON2ID


class TestScram:
    @pytest.fixture
    def scram_world(self) -> World:
        world = World()
        world.users.add("bob", scheme=Scheme.SCRAM_SHA_256)
        return world

    def test_its_verifier_is_what_a_foreign_server_and_its_client_need(self, scram_world: World) -> None:
        verifier = ScramVerifier.parse(scram_world.users.users["bob"].verifier)
        kept = (verifier.salt, verifier.stored_key, verifier.server_key, verifier.iterations)
        client = ScramClient(["SCRAM-SHA-256"], "bob", GOOD)
        server = ScramMechanism("SCRAM-SHA-256").make_server(lambda name: kept)
        server.set_client_first(client.get_client_first())
        client.set_server_first(server.get_server_first())
        server.set_client_final(client.get_client_final())
        client.set_server_final(server.get_server_final())

    def test_such_a_user_logs_in_with_a_plain_password(self, scram_world: World) -> None:
        authenticator = scram_world.authenticator()
        refusal(lambda: authenticator.authenticate(password("bob", "wrong"), peer=PEER))
        assert authenticator.authenticate(password("bob"), peer=PEER).name == "bob"
