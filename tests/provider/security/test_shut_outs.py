"""Who was shut out while logging in is not let in, however many others are shut out meanwhile."""

from __future__ import annotations

import pytest

from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.security.contracts import Principal
from pyjms_provider.security.shut_outs import ShutOuts

BOB = Principal(name="bob", provider="users")


@pytest.mark.parametrize("others", [0, 1, 999, 1000, 3000])
def test_a_shut_out_is_not_forgotten_before_who_logs_in_is_checked(others: int) -> None:
    shut_outs = ShutOuts()
    mark = shut_outs.mark
    shut_outs.note("users", "bob")
    for number in range(others):
        shut_outs.note("users", f"other{number}")
    with pytest.raises(AccessDeniedError):
        shut_outs.check(BOB, mark)
    shut_outs.check(BOB, shut_outs.mark)


def test_who_was_shut_out_before_or_whose_namesake_is_comes_in() -> None:
    shut_outs = ShutOuts()
    shut_outs.note("users", "bob")
    mark = shut_outs.mark
    for number in range(500):
        shut_outs.note("others", "bob")
        shut_outs.note("users", f"other{number}")
    shut_outs.check(BOB, mark)
