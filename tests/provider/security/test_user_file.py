"""The user file: what stands in it, how it is changed, and what happens on bad days."""

from __future__ import annotations

import fcntl
import logging
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.spi.errors import AccessDeniedError
from pyjms.testing import VirtualClock
from pyjms_provider.security.passwords import PasswordAuthenticator, PasswordHasher, Scheme
from pyjms_provider.security.private_files import PrivateFileError
from pyjms_provider.security.user_file import UserError, UserFile, UserFileError, WatchedUserFile
from tests.provider.security.helpers import CHEAP, GOOD, password

HASHER = PasswordHasher(CHEAP)


@pytest.fixture
def file(tmp_path: Path) -> UserFile:
    file = UserFile(tmp_path / "users", hasher=HASHER)
    file.add("alice", GOOD, ["staff"])
    return file


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def names(file: UserFile) -> list[str]:
    return [user.name for user in file.users()]


def test_the_file_is_made_with_its_first_user_for_its_owner_alone(file: UserFile) -> None:
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [(user.name, user.groups) for user in file.users()] == [("alice", frozenset({"staff"}))]
    assert GOOD not in file.path.read_text()


def test_users_are_added_changed_and_removed(file: UserFile) -> None:
    file.add("bob", GOOD)
    file.alter("bob", groups=["b", "a", "b"])
    file.alter("alice", password="another one")
    users = {user.name: user for user in file.users()}
    assert users["bob"].groups == {"a", "b"}
    assert users["alice"].groups == {"staff"}
    assert HASHER.accepts(users["alice"].verifier, "another one")
    file.remove("alice")
    assert names(file) == ["bob"]
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_comments_and_the_order_of_lines_stay(file: UserFile) -> None:
    text = file.path.read_text() + "\n  # the night shift\n"
    write(file.path, text.rstrip("\n"))
    file.add("bob", GOOD)
    file.alter("alice", groups=[])
    lines = [line.split()[:2] for line in file.path.read_text().splitlines()]
    assert [line[:1] for line in lines] == [["#"], ["alice"], [], ["#"], ["bob"]]


def test_a_scram_verifier_is_made_when_it_is_asked_for(tmp_path: Path) -> None:
    hasher = PasswordHasher(type(CHEAP)(scheme=Scheme.SCRAM_SHA_256, iterations=4096))
    file = UserFile(tmp_path / "users", hasher=hasher)
    file.add("bob", GOOD)
    assert file.read().schemes == {Scheme.SCRAM_SHA_256}
    assert hasher.accepts(file.users()[0].verifier, GOOD)


@pytest.mark.parametrize("name", ["", "a b", "a,b", "#a", "a\n", "a\x00", "x" * 256, "\u200bx", "a\u2028b"])
def test_a_name_that_would_break_the_file_is_refused(file: UserFile, name: str) -> None:
    before = file.path.read_bytes()
    with pytest.raises(UserError, match="no user name"):
        file.add(name, GOOD)
    with pytest.raises(UserError, match="no group name"):
        file.add("bob", GOOD, [name])
    assert file.path.read_bytes() == before


def test_a_name_that_http_cannot_carry_is_refused(file: UserFile) -> None:
    """Basic ends the name at the first colon (RFC 7617 §2): such a user came in over STOMP, and nowhere else."""
    with pytest.raises(UserError, match="HTTP cannot carry one with a colon"):
        file.add("a:b", GOOD)
    file.add("bob", GOOD, ["urn:staff"])
    assert names(file)[-1] == "bob"


def test_who_had_a_colon_in_the_name_before_stays(file: UserFile) -> None:
    lines = file.path.read_text()
    file.path.write_text(lines + lines.splitlines()[-1].replace("alice", "a:b") + "\n")
    assert "a:b" in names(file)
    file.remove("a:b")
    assert "a:b" not in names(file)


@settings(max_examples=40, deadline=None)
@given(st.text(), st.lists(st.text(), max_size=3))
def test_whatever_is_added_is_found_again_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, groups: list[str]
) -> None:
    file = UserFile(tmp_path_factory.mktemp("u") / "users", hasher=HASHER)
    file.add("first", GOOD)
    try:
        file.add(name, GOOD, groups)
    except UserError:
        return
    file.add("last", GOOD)
    assert names(file) == ["first", name, "last"]
    assert file.users()[1].groups == set(groups)


def test_the_commands_refuse_what_makes_no_sense(file: UserFile) -> None:
    with pytest.raises(UserError, match="already"):
        file.add("alice", GOOD)
    calls: list[Callable[[], None]] = [
        partial(file.remove, "bob"),
        partial(file.alter, "bob", password=GOOD),
        partial(file.alter, "bob", groups=[]),
    ]
    for call in calls:
        with pytest.raises(UserError, match=r"no user 'bob'.*user list"):
            call()
    for weak in ("", "1234567", "x" * 1025, "1234567" + "\xad" * 8):
        with pytest.raises(UserError, match="8 to 1024"):
            file.add("bob", weak)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "bob tiger",
            "line 3: what stands for the password of 'bob' is not a hash.*never kept.*pyjms broker user add FILE bob",
        ),
        ("bob", "line 3: name, hash"),
        ("bob $argon2id$x", "line 3: .*damaged"),
        ("bob tiger staff more", "line 3: name, hash"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_a_password_in_it_is_not_shown(
    file: UserFile, line: str, complaint: str
) -> None:
    write(file.path, file.path.read_text() + line + "\n")
    with pytest.raises(UserFileError, match=complaint) as caught:
        file.users()
    assert "tiger" not in caught.value.reason
    before = file.path.read_bytes()
    with pytest.raises(UserFileError):
        file.add("carol", GOOD)
    assert file.path.read_bytes() == before


def test_one_name_twice_is_refused(file: UserFile) -> None:
    text = file.path.read_text()
    write(file.path, text + text.splitlines()[-1] + "\n")
    with pytest.raises(UserFileError, match="line 3: there are two users 'alice'"):
        file.users()


def test_a_missing_file_tells_the_command_that_makes_it(tmp_path: Path) -> None:
    file = UserFile(tmp_path / "users")
    calls: list[Callable[[], object]] = [file.users, partial(WatchedUserFile, file), partial(file.remove, "bob")]
    for call in calls:
        with pytest.raises(PrivateFileError, match="pyjms broker user add"):
            call()


def test_a_file_that_others_may_read_is_refused(file: UserFile) -> None:
    file.path.chmod(0o644)
    with pytest.raises(PrivateFileError, match="chmod 600"):
        file.users()


def test_a_symbolic_link_stays_one(file: UserFile, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file.path)
    UserFile(link, hasher=HASHER).add("bob", GOOD)
    assert link.is_symlink()
    assert names(file) == ["alice", "bob"]


class TestOnBadDays:
    @pytest.mark.parametrize("failing", ["fsync", "replace"])
    def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(
        self, file: UserFile, monkeypatch: pytest.MonkeyPatch, failing: str
    ) -> None:
        before = file.path.read_bytes()

        def fail(*args: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync" if failing == "fsync" else "pathlib.Path.replace", fail)
        with pytest.raises(PrivateFileError, match="No space left"):
            file.add("bob", GOOD)
        monkeypatch.undo()
        assert file.path.read_bytes() == before
        assert {path.name for path in file.path.parent.iterdir()} == {"users", "users.lock"}
        file.add("bob", GOOD)

    @settings(max_examples=30, deadline=None)
    @given(cut=st.integers(0, 400))
    def test_a_file_that_was_torn_by_a_crash_of_another_program_lets_nobody_in_by_accident(
        self, tmp_path_factory: pytest.TempPathFactory, cut: int
    ) -> None:
        file = UserFile(tmp_path_factory.mktemp("u") / "users", hasher=HASHER)
        file.add("alice", GOOD)
        file.add("bob", GOOD)
        write(file.path, file.path.read_text()[:cut])
        try:
            users = WatchedUserFile(file)
        except UserFileError:
            return
        authenticator = PasswordAuthenticator(users, VirtualClock(), hasher=HASHER)
        for name in ("alice", "bob"):
            for text in ("", "x"):
                with pytest.raises(AccessDeniedError):
                    authenticator.authenticate(password(name, text))

    def test_several_processes_that_change_it_lose_nothing(self, file: UserFile) -> None:
        program = (
            "import sys; from pyjms_provider.security.user_file import UserFile\n"
            "from pyjms_provider.security.passwords import HashSettings, PasswordHasher\n"
            "file = UserFile(sys.argv[1], hasher=PasswordHasher(HashSettings(memory_kib=8, passes=1)))\n"
            "for n in range(15): file.add(f'{sys.argv[2]}{n}', 'correct horse')\n"
        )
        processes = [
            subprocess.Popen([sys.executable, "-c", program, str(file.path), letter], stderr=subprocess.PIPE)
            for letter in "abc"
        ]
        for number in range(15):
            file.alter("alice", groups=[f"g{number}"])
        assert [(process.communicate(timeout=120)[1], process.returncode) for process in processes] == [(b"", 0)] * 3
        assert set(names(file)) == {"alice"} | {f"{letter}{n}" for letter in "abc" for n in range(15)}
        assert file.users()[0].groups == {"g14"}

    def test_a_lock_that_is_held_too_long_is_an_error_not_a_hang(self, file: UserFile) -> None:
        class Restless(VirtualClock):
            def wait(self, signal: object, until_ms: float | None) -> bool:
                self.advance(100)
                return False

        with file.path.with_name("users.lock").open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(PrivateFileError, match="another process"):
                UserFile(file.path, hasher=HASHER, clock=Restless()).add("bob", GOOD)
        assert names(file) == ["alice"]


class TestWhileTheBrokerRuns:
    @pytest.fixture
    def authenticator(self, file: UserFile) -> PasswordAuthenticator:
        return PasswordAuthenticator(WatchedUserFile(file), VirtualClock(), hasher=HASHER)

    def test_each_change_counts_at_the_next_log_in(self, file: UserFile, authenticator: PasswordAuthenticator) -> None:
        authenticator.authenticate(password("alice"))
        file.add("bob", GOOD)
        assert authenticator.authenticate(password("bob")).name == "bob"
        file.alter("bob", password="another one")
        with pytest.raises(AccessDeniedError):
            authenticator.authenticate(password("bob"))
        file.remove("alice")
        with pytest.raises(AccessDeniedError):
            authenticator.authenticate(password("alice"))

    @pytest.mark.parametrize("damage", ["text", "mode", "removed"])
    def test_a_file_that_cannot_be_read_any_more_changes_nothing_and_is_logged_once(
        self, file: UserFile, authenticator: PasswordAuthenticator, damage: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        good = file.path.read_text()
        if damage == "text":
            write(file.path, "alice tiger\n")
        elif damage == "mode":
            file.path.chmod(0o644)
        else:
            file.path.unlink()
        for _ in range(3):
            assert authenticator.authenticate(password("alice")).name == "alice"
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert "PYJMS-SECURITY-1" in caplog.text
        assert "tiger" not in caplog.text
        file.path.unlink(missing_ok=True)
        write(file.path, good.replace("alice", "carol"))
        assert authenticator.authenticate(password("carol")).name == "carol"

    def test_a_hash_is_renewed_in_the_file(self, file: UserFile) -> None:
        dearer = PasswordHasher(type(CHEAP)(memory_kib=16, passes=1))
        authenticator = PasswordAuthenticator(WatchedUserFile(file), VirtualClock(), hasher=dearer)
        authenticator.authenticate(password("alice"))
        user = file.users()[0]
        assert dearer.is_current(user.verifier)
        assert user.groups == {"staff"}
        authenticator.authenticate(password("alice"))
        assert file.users()[0] == user

    def test_a_renewal_does_not_undo_a_change_of_the_password(self, file: UserFile) -> None:
        user = file.users()[0]
        file.alter("alice", password="another one")
        file.renew(user, HASHER.make(GOOD))
        assert HASHER.accepts(file.users()[0].verifier, "another one")
