"""The user file: one user per line, with the hash of the password and the groups; and its changes by `pyjms broker user`.

    # name    hash of the password (never the password)          groups
    alice     $argon2id$v=19$m=19456,t=2,p=1$…$…                 staff,administrators
    bob       SCRAM-SHA-256$100000:…$…:…

A line that begins with # is a comment. Only its owner can read the file (mode 600). A change is written to a new file, which
replaces the old one; comments and the order of lines are preserved. Several processes may change it: each holds `FILE.lock`
meanwhile. A running broker sees a change at the next log-in; if it cannot read the changed file, it keeps the previous users.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.errors import ProviderError
from pyjms_provider.security.passwords import (
    LONGEST_NAME,
    LONGEST_PASSWORD,
    PasswordHasher,
    Scheme,
    User,
    VerifierError,
    scheme_of,
)
from pyjms_provider.security.private_files import PrivateFileError, create_private, read_private, write_private

if sys.platform != "win32":
    import fcntl

_log = logging.getLogger(__name__)
_FILE_LIMIT: Final = 16 * 1024 * 1024
_SHORTEST_PASSWORD: Final = 8
_LOCK_PATIENCE_MS: Final = 10_000
_LOCK_STEP_MS: Final = 20
_NAME: Final = re.compile(rf"[^\s\x00-\x1f\x7f#,][^\s\x00-\x1f\x7f,]{{0,{LONGEST_NAME - 1}}}")
_HEAD: Final = """\
# Users of a pyjms broker: name, hash of the password, groups. Change it with: pyjms broker user add|remove|passwd|list
"""

_Edit = Callable[[list[str], dict[str, int]], None]


class UserFileError(ProviderError):
    """The user file is malformed; the text names the line."""

    code = "PYJMS-USER-FILE"


class UserError(ProviderError):
    """A user cannot be added, changed or removed."""

    code = "PYJMS-USER"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    users: Mapping[str, User] = field(default_factory=dict)
    schemes: frozenset[Scheme] = frozenset()


class UserFile:
    """Reads and changes a user file. Caches nothing: each call reads the file. Safe to use from any thread and process."""

    def __init__(self, path: str | Path, *, hasher: PasswordHasher | None = None, clock: Clock | None = None) -> None:
        """`hasher`: for new passwords; `clock`: for waits until another process has finished its change."""
        self.path = Path(path)
        self._hasher = hasher or PasswordHasher()
        self._clock = clock or SystemClock()

    def users(self) -> tuple[User, ...]:
        """Return all users in the order of the file. Raises `PrivateFileError`, `UserFileError`."""
        return tuple(self.read().users.values())

    def read(self) -> _Content:
        """Return the parsed content of the file. Raises `PrivateFileError`, `UserFileError`."""
        users: dict[str, User] = {}
        for number, line in enumerate(self._lines(), 1):
            user = _parse(line, f"{self.path}, line {number}")
            if user is None:
                continue
            if user.name in users:
                raise UserFileError(
                    f"{self.path}, line {number}: there are two users {user.name!a}; remove one of them"
                )
            users[user.name] = user
        return _Content(users=users, schemes=frozenset(scheme_of(user.verifier) for user in users.values()))

    def add(self, name: str, password: str, groups: Iterable[str] = ()) -> None:
        """Add a user; the file is created if it does not exist.

        Raises `UserError` if the name is taken or malformed, or the password is too short; `PrivateFileError`, `UserFileError`.
        """
        if ":" in _checked(name, "user name"):
            # RFC 7617 §2: in HTTP the name ends at the first colon, so REST and `pyjms manage` could never authenticate this user.
            raise UserError(f"{name[:80]!a} is no user name: HTTP cannot carry one with a colon; choose another one")
        line = _render(name, self._new_verifier(password), _checked_groups(groups))

        def edit(lines: list[str], numbers: dict[str, int]) -> None:
            if name in numbers:
                raise UserError(
                    f"{self.path}: there is a user {name!a} already; to change the password: pyjms broker user passwd {self.path} {name}"
                )
            lines.append(line)

        self._change(edit, create=True)

    def remove(self, name: str) -> None:
        """Remove a user. Raises `UserError` if there is none of that name; `PrivateFileError`, `UserFileError`."""

        def edit(lines: list[str], numbers: dict[str, int]) -> None:
            del lines[self._number(numbers, name)]

        self._change(edit)

    def alter(self, name: str, *, password: str | None = None, groups: Iterable[str] | None = None) -> None:
        """Replace the password or the groups of a user, or both together; None: unchanged.

        Raises as `add` and `remove`: then nothing has changed.
        """
        verifier = None if password is None else self._new_verifier(password)
        checked = None if groups is None else frozenset(_checked_groups(groups))
        self._replace(
            name,
            lambda user: User(
                name=name,
                verifier=user.verifier if verifier is None else verifier,
                groups=user.groups if checked is None else checked,
            ),
        )

    def renew(self, user: User, verifier: str) -> None:
        """Replace the user's verifier by `verifier`, unless it was changed in the meantime. Raises `ProviderError`."""

        def renewed(current: User) -> User:
            # The password was changed since the log-in began: a renewed hash of the old one must not be written.
            if current.verifier != user.verifier:
                return current
            return User(name=user.name, verifier=verifier, groups=current.groups)

        self._replace(user.name, renewed)

    def _replace(self, name: str, change: Callable[[User], User]) -> None:
        def edit(lines: list[str], numbers: dict[str, int]) -> None:
            number = self._number(numbers, name)
            user = _parse(lines[number], str(self.path))
            assert user is not None, "the line was found by its user"
            changed = change(user)
            lines[number] = _render(name, changed.verifier, sorted(changed.groups))

        self._change(edit)

    def _number(self, numbers: dict[str, int], name: str) -> int:
        if name not in numbers:
            raise UserError(f"{self.path}: there is no user {name!a}; to see all: pyjms broker user list {self.path}")
        return numbers[name]

    def _new_verifier(self, password: str) -> str:
        visible = sum(character.isprintable() for character in password)  # SCRAM ignores some of the others
        if visible < _SHORTEST_PASSWORD or len(password) > LONGEST_PASSWORD:
            raise UserError(f"a password has {_SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters; choose another one")
        return self._hasher.make(password)

    def _lines(self) -> list[str]:
        if not self.path.exists():
            raise PrivateFileError(
                f"{self.path}: there is no such user file. Make it with its first user: pyjms broker user add {self.path} NAME"
            )
        return read_private(self.path, _FILE_LIMIT).split("\n")

    def _change(self, edit: _Edit, *, create: bool = False) -> None:
        """Apply `edit` to the lines, and write them. The lock excludes other changes meanwhile."""
        with self._locked():
            if create and not self.path.exists():
                create_private(self.path, _HEAD)
            self.read()  # a malformed file is not changed
            lines = self._lines()
            # The text ends with a line break, after which `split` returns an empty text.
            if lines[-1] == "":
                lines.pop()
            edit(
                lines, {line.split()[0]: at for at, line in enumerate(lines) if line.strip() and not _is_comment(line)}
            )
            write_private(self.path, "\n".join([*lines, ""]))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        real = self.path.resolve()  # two names of one file must have the same lock
        # A change replaces the file by a new one, so a lock on the user file itself would not exclude a second process.
        # The lock file is never deleted: if another process waited for it, there would be two locks.
        lock = real.with_name(f"{real.name}.lock")
        try:
            lock.touch(mode=0o600)
            file = lock.open("rb")
        except OSError as error:
            raise PrivateFileError(f"{lock}: cannot be made: {error.strerror}") from error
        with file:
            self._lock(file, lock)
            yield  # closing the file releases the lock

    def _lock(self, file: IO[bytes], lock: Path) -> None:
        if sys.platform == "win32":
            return  # without locks, the last of two concurrent changes wins
        until_ms = self._clock.monotonic_ms() + _LOCK_PATIENCE_MS
        while True:
            try:
                # `flock` has no timeout, so the lock is tried repeatedly until the time limit.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                now = self._clock.monotonic_ms()
                if now >= until_ms:
                    raise PrivateFileError(
                        f"{lock}: another process has been changing the users for {_LOCK_PATIENCE_MS // 1000} s; try again"
                    ) from None
                self._clock.wait(Signal(), now + _LOCK_STEP_MS)
            else:
                return


class WatchedUserFile:
    """The users of a file, always up to date (`passwords.UserDirectory`). Safe to use from any thread.

    Each call checks whether the file has changed, and then reads it again. If it cannot be read any more, this is logged once and
    the previous users are kept, so that an error in an editor locks nobody out.
    """

    def __init__(self, file: UserFile) -> None:
        """Read the file. Raises `PrivateFileError`, `UserFileError`."""
        self._file = file
        self._seen = self._signature()
        self._content = file.read()

    def find(self, name: str) -> User | None:
        """Return the user of that name in the present file; None: there is none."""
        self._look()
        return self._content.users.get(name)

    def schemes(self) -> frozenset[Scheme]:
        """Return the schemes of the hashes in the file."""
        self._look()
        return self._content.schemes

    def renew(self, user: User, verifier: str) -> None:
        """Replace the user's verifier by `verifier`, unless it was changed. Raises `ProviderError`."""
        self._file.renew(user, verifier)

    def _look(self) -> None:
        signature = self._signature()
        if signature == self._seen:
            return
        try:
            self._content = self._file.read()
        except ProviderError as error:
            _log.error(
                "PYJMS-SECURITY-1 the changed user file is not in force, the users of before stay: %s", error.reason
            )
        self._seen = signature  # read before the content: a change in between is noticed next time

    def _signature(self) -> tuple[int, ...]:
        try:
            status = self._file.path.stat()
        except OSError:
            return ()
        # The mode is included: a file that others may read now is refused.
        return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _parse(line: str, place: str) -> User | None:
    """Return the user of a line; None: it has none. Raises `UserFileError`, whose text never contains the second word."""
    if not line.strip() or _is_comment(line):
        return None
    words = line.split()
    if len(words) not in {2, 3}:
        raise UserFileError(
            f"{place}: name, hash of the password and groups are expected, and groups without blanks between"
        )
    name, verifier = words[:2]
    try:
        scheme_of(verifier)
    except VerifierError as error:
        raise UserFileError(
            f"{place}: what stands for the password of {name!a} {error}. Passwords are never kept as they are: remove this "
            f"line, and add the user with: pyjms broker user add FILE {name}"
        ) from error
    try:
        groups = _checked_groups(words[2].split(",") if len(words) == 3 else ())
        return User(name=_checked(name, "user name"), verifier=verifier, groups=frozenset(groups))
    except UserError as error:
        raise UserFileError(f"{place}: {error.reason}") from error


def _render(name: str, verifier: str, groups: Iterable[str]) -> str:
    return f"{name} {verifier} {','.join(groups)}".rstrip()


def _checked(name: str, what: str) -> str:
    if _NAME.fullmatch(name) is None or not name.isprintable():
        raise UserError(
            f"{name[:80]!a} is no {what}: 1 to {LONGEST_NAME} characters are expected, no blanks or commas, and no # at first"
        )
    return name


def _checked_groups(groups: Iterable[str]) -> list[str]:
    return sorted({_checked(group, "group name") for group in groups})
