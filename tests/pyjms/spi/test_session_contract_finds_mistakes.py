"""The contract tests of registered clients are tests of something: each mistake here makes one of them fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pyjms.spi import sessions as sessions_module
from pyjms.spi.errors import ProviderError
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.journal.journal import ClientChanges
from pyjms_provider.core.transaction import registered_clients
from pyjms_provider.core.transaction.registered_clients import RegisteredClients
from pyjms_tck.spi import session_suite
from pyjms_tck.spi.environment import Environment

if TYPE_CHECKING:
    from pyjms.spi.sessions import ClientTags
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

_register, _tagged = RegisteredClients.register, registered_clients._tagged


def register_anew(clients: RegisteredClients, name: str, *rest: Any) -> Any:
    """A client that registers again has no tags."""
    return replace(_register(clients, name, *rest), request_tag=None)


def tag_at_once(session: VmSession, tags: ClientTags) -> None:
    """The tags do not wait for the commit."""
    client = session._host.clients._clients[tags.name]
    client.record = _tagged(client.record, tags, 1)


def commit_without(clients: RegisteredClients, unit: UnitOfWork, act: Callable[[], Any]) -> Any:
    """The tags of a unit are not stored."""
    unit.client_changes = ClientChanges()
    return act()


def ignore(*_: object, **__: object) -> None:
    """Nothing is checked, or done."""


MISTAKES: dict[str, tuple[dict[tuple[object, str], object], Callable[..., None]]] = {
    "no answer": (
        {(RegisteredClients, "register"): register_anew},
        session_suite.test_a_client_that_registers_again_gets_its_last_committed_tags,
    ),
    "stored before the commit": (
        {(VmSession, "tag"): tag_at_once},
        session_suite.test_tags_are_stored_with_the_commit_and_dropped_by_a_rollback,
    ),
    "stored without a commit": (
        {(VmSession, "tag"): tag_at_once},
        session_suite.test_a_session_that_ends_without_a_commit_leaves_the_tags_as_they_were,
    ),
    "stored before the send": (
        {(VmSession, "tag"): tag_at_once},
        session_suite.test_outside_of_transactions_a_tag_is_stored_with_the_next_send_or_acknowledgement,
    ),
    "both go on": (
        {(registered_clients, "_check_incarnation"): ignore},
        session_suite.test_a_registration_supersedes_the_earlier_one,
    ),
    "remembered": (
        {(RegisteredClients, "_remove"): ignore},
        session_suite.test_a_client_that_was_deregistered_is_forgotten,
    ),
    "no limit": (
        {(sessions_module, "_check_text"): ignore},
        session_suite.test_names_and_tags_have_a_limit,
    ),
    "connected for ever": (
        {(RegisteredClients, "end_connection"): ignore},
        session_suite.test_a_client_is_connected_until_its_connection_closes,
    ),
    "no tags in branches": (
        {(RegisteredClients, "commit"): commit_without},
        session_suite.test_the_tags_of_a_branch_are_stored_when_it_is_committed,
    ),
}


@pytest.fixture
def kept(tmp_path: Any, vm_url: str) -> Iterator[Environment]:
    with Environment(f"{vm_url}?store=sqlite:///{tmp_path / 'store.db'}", patience_s=0.3) as opened:
        yield opened


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(kept: Environment, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    replaced, contract_test = MISTAKES[mistake]
    subject: object = kept if "environment" in contract_test.__annotations__ else session_suite.open_sessions(kept)
    for (owner, name), instead in replaced.items():
        monkeypatch.setattr(owner, name, instead)
    with pytest.raises((AssertionError, pytest.fail.Exception, ProviderError)):
        contract_test(subject)
