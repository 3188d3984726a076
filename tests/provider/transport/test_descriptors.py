from __future__ import annotations

import resource

import pytest

from pyjms_provider.transport.listener import KEPT_FROM_OPERATORS, is_kept


@pytest.mark.parametrize(
    ("most", "first_of_clients", "first_of_operators"),
    [(1024, 960, 992), (256, 192, 224), (200, 150, 175), (20, 15, 18), (resource.RLIM_INFINITY, None, None)],
)
def test_the_last_files_are_kept_for_stores_and_some_of_them_for_operators(
    monkeypatch: pytest.MonkeyPatch, most: int, first_of_clients: int | None, first_of_operators: int | None
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (most, most))
    clients = next((each for each in range(2000) if is_kept(each)), None)
    operators = next((each for each in range(2000) if is_kept(each, KEPT_FROM_OPERATORS)), None)
    assert (clients, operators) == (first_of_clients, first_of_operators)
