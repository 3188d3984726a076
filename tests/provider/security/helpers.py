"""Users, hashes that cost next to nothing, and counting them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyjms.spi.clock import Clock
from pyjms.testing import VirtualClock
from pyjms_provider.security.contracts import PasswordCredentials
from pyjms_provider.security.passwords import (
    HashSettings,
    LoginSettings,
    PasswordAuthenticator,
    PasswordHasher,
    Scheme,
    User,
    scheme_of,
)

CHEAP = HashSettings(memory_kib=8, passes=1, iterations=4096)
GOOD = "correct horse"


class CountingHasher(PasswordHasher):
    """Counts the passwords that were checked: what an attacker could measure, without a stopwatch."""

    def __init__(self, settings: HashSettings = CHEAP) -> None:
        super().__init__(settings)
        self.checked: list[Scheme] = []

    def accepts(self, verifier: str, password: str) -> bool:
        self.checked.append(scheme_of(verifier))
        return super().accepts(verifier, password)


@dataclass
class Users:
    """Users in memory."""

    users: dict[str, User] = field(default_factory=dict)

    def find(self, name: str) -> User | None:
        return self.users.get(name)

    def schemes(self) -> frozenset[Scheme]:
        return frozenset(scheme_of(user.verifier) for user in self.users.values())

    def renew(self, user: User, verifier: str) -> None:
        self.users[user.name] = replace(user, verifier=verifier)

    def add(self, name: str, password: str = GOOD, scheme: Scheme = Scheme.ARGON2ID, *groups: str) -> None:
        verifier = PasswordHasher(CHEAP).make(password, scheme)
        self.users[name] = User(name=name, verifier=verifier, groups=frozenset(groups))


@dataclass
class World:
    """An authenticator and all that it depends on."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    users: Users = field(default_factory=Users)
    hasher: CountingHasher = field(default_factory=CountingHasher)

    def authenticator(self, settings: LoginSettings | None = None, clock: Clock | None = None) -> PasswordAuthenticator:
        return PasswordAuthenticator(self.users, clock or self.clock, hasher=self.hasher, settings=settings)


def password(user_name: str, text: str = GOOD) -> PasswordCredentials:
    return PasswordCredentials(user_name=user_name, password=text)
