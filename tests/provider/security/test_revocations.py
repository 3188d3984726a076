"""A user who is changed while logging in is not let in, however many others are changed meanwhile."""

from __future__ import annotations

import pytest

from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.security.contracts import Principal
from pyjms_provider.security.logins import RevocationGuard

BOB = Principal(name="bob", provider="users")


@pytest.mark.parametrize("others", [0, 1, 999, 1000, 3000])
def test_a_shut_out_is_not_forgotten_before_who_logs_in_is_checked(others: int) -> None:
    revocations = RevocationGuard()
    mark = revocations.mark
    revocations.note("users", "bob")
    for number in range(others):
        revocations.note("users", f"other{number}")
    with pytest.raises(AccessDeniedError):
        revocations.check(BOB, mark)
    revocations.check(BOB, revocations.mark)


def test_who_was_shut_out_before_or_whose_namesake_is_comes_in() -> None:
    revocations = RevocationGuard()
    revocations.note("users", "bob")
    mark = revocations.mark
    for number in range(500):
        revocations.note("others", "bob")
        revocations.note("users", f"other{number}")
    revocations.check(BOB, mark)
