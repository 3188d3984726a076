"""Registered clients over the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from pyjms.spi.errors import AccessDeniedError, RolledBackError
from pyjms.spi.sessions import ClientTags
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_tck.spi.environment import Environment, envelope
from pyjms_tck.spi.session_suite import *  # noqa: F403  the contract's own tests


@pytest.fixture(scope="module", params=list(product(["stomp", "amqp"], ["memory", "store"])), ids="-".join)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    protocol, kept = request.param
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'broker.db'}"
    with ServedBroker.open(name="broker") as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        store = {"store_url": url} if kept == "store" else {}
        node.create_child("virtual_host", {"name": "broker", **store})
        top.create_child(
            "port",
            {
                "name": protocol,
                "type": protocol,
                "host": "127.0.0.1",
                "transports": ["tcp"],
                "port": 0,
                "authentication_providers": ["anonymous"],
                "access_control": "access",
            },
        )
        yield f"{protocol}://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}"


@pytest.fixture
def environment(served: str) -> Iterator[Environment]:
    with Environment(served) as opened:
        yield opened


PASSWORD = "correct horse battery"


@pytest.fixture(params=["stomp", "amqp"])
def shared(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker of two users and an administrator."""
    protocol = request.param
    with ServedBroker.open(name="broker") as served:
        top = served.broker
        users = top.create_child(
            "authentication_provider", {"name": "users", "type": "user-file", "path": str(tmp_path / "users")}
        )
        for name in ("ada", "bob", "root"):
            users.create_child("user", {"name": name, "password": PASSWORD})
        everything = {"effect": "allow", "who": "user:root"}
        work = {"effect": "allow", "who": "*", "operations": ["connect", "read", "write", "create", "browse"]}
        top.create_child("access_control", {"name": "access", "rules": [everything, work]})
        node = top.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        node.create_child("virtual_host", {"name": "broker"})
        top.create_child(
            "port",
            {
                "name": protocol,
                "type": protocol,
                "host": "127.0.0.1",
                "transports": ["tcp"],
                "port": 0,
                "authentication_providers": ["users"],
                "access_control": "access",
            },
        )
        yield f"{protocol}://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}"


def test_a_client_is_its_users_own_and_an_administrators(shared: str) -> None:
    """The number of a registration can be guessed, so it opens nothing by itself."""
    with ExitStack() as opened:
        ada, bob, root = (
            opened.enter_context(Environment(shared, credentials=(name, PASSWORD))).connect()
            for name in ("ada", "bob", "root")
        )
        client = ada.persistent_sessions().register("desk")
        with pytest.raises(AccessDeniedError, match="another user"):
            bob.persistent_sessions().register("desk")
        with pytest.raises(AccessDeniedError, match="another user"):
            bob.persistent_sessions().deregister("desk")
        assert list(bob.persistent_sessions().clients()) == []
        stolen = ClientTags(name="desk", incarnation=client.incarnation, request="stolen")
        alone = bob.open_session(transacted=False)
        alone.tag(stolen)
        with pytest.raises(AccessDeniedError, match="another user"):
            alone.send(envelope(Environment.queue()))
        transacted = bob.open_session(transacted=True)
        transacted.tag(stolen)
        with pytest.raises(RolledBackError, match="another user"):
            transacted.commit()
        assert [each.request_tag for each in root.persistent_sessions().clients()] == [None]
        assert root.persistent_sessions().register("desk").incarnation == 2
        assert ada.persistent_sessions().register("desk").incarnation == 3
        root.persistent_sessions().deregister("desk")
        assert list(ada.persistent_sessions().clients()) == []


def test_a_client_goes_on_with_its_registration_when_its_connection_was_replaced(environment: Environment) -> None:
    """It counts as connected again from its first tag on."""
    first, second = environment.connect(), environment.connect()
    client = first.persistent_sessions().register(environment.name("desk"))
    first.close()
    session = second.open_session(transacted=True)
    session.tag(ClientTags(name=client.name, incarnation=client.incarnation, request="1"))
    session.commit()
    (found,) = [each for each in second.persistent_sessions().clients() if each.name == client.name]
    assert (found.request_tag, found.left_ms, found.incarnation) == ("1", None, 1)
    second.persistent_sessions().deregister(client.name)
