"""Links between members: who gets in, to which broker, over TLS, and to which member when the leader changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import AccessDeniedError, ResourceError
from pyjms.spi.provider import ProviderConnection
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.cluster.links import LinkRequest
from pyjms_provider.cluster.settings import LinkSettings, LinkTls
from pyjms_provider.serving.cluster_links import ClusterLinks, OpenLink, OpenLinkPort
from tests.provider.cluster.world import wait_until
from tests.provider.helpers import RecordedEvents, make_envelope
from tests.provider.transport.certificates import Authority

SECRET = "the secret of the cluster"


class Peer:
    """A link port, and the brokers behind it."""

    def __init__(self, *names: str, tls: LinkTls | None = None) -> None:
        self.brokers = {name: EmbeddedBroker(name, SystemClock()) for name in names}
        self.links = ClusterLinks("shop", None)
        self.tls = tls
        self.port: OpenLinkPort = self.links.listen(LinkSettings(tls=tls), self.brokers.get, SECRET, SystemClock())
        self.address = f"127.0.0.1:{self.port.port}"

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.stop()
        self.port.close()


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    made: list[Peer] = []
    yield made
    for peer in made:
        peer.close()


def connect(
    *peers: Peer, broker: str = "shop.0", secret: str = SECRET, attempts: int = 0
) -> tuple[ProviderConnection, OpenLink]:
    request = LinkRequest(
        broker=broker,
        addresses=[peer.address for peer in peers],
        member="first",
        secret=secret,
        tls=peers[0].tls,
        timeout_ms=10_000,
        attempts=attempts,
    )
    return peers[0].links.connect(request, SystemClock(), RecordedEvents())


def send(connection: ProviderConnection, text: str) -> None:
    session = connection.open_session(transacted=False)
    session.send(make_envelope(text, destination=Address(AddressKind.QUEUE, "orders")))
    session.close()


def arrived(broker: EmbeddedBroker) -> list[object]:
    queue = broker.virtual_host.find_queue("orders")
    return [] if queue is None else [each.body for each in queue.browse()]


def test_a_link_reaches_the_broker_that_it_names(peers: list[Peer]) -> None:
    peers.append(Peer("shop.0", "shop.1"))
    connection, link = connect(peers[0], broker="shop.1")
    send(connection, "1")
    assert arrived(peers[0].brokers["shop.1"]) == ["1"]
    assert not link.is_over
    [client] = peers[0].brokers["shop.1"].clients().values()
    assert (client.user, client.protocol) == ("first", "link")
    connection.close()
    assert link.is_over


def test_who_does_not_know_the_secret_is_refused(peers: list[Peer]) -> None:
    peers.append(Peer("shop.0"))
    with pytest.raises(AccessDeniedError):
        connect(peers[0], secret="another")


def test_a_member_that_does_not_lead_a_shard_is_passed_by(peers: list[Peer]) -> None:
    peers += [Peer("shop.1"), Peer("shop.0")]
    connection, _ = connect(*peers)
    send(connection, "1")
    assert arrived(peers[1].brokers["shop.0"]) == ["1"]
    connection.close()
    with pytest.raises(ResourceError, match=r"no virtual host .shop\.9."):
        connect(*peers, broker="shop.9")


def test_a_link_finds_the_next_leader(peers: list[Peer]) -> None:
    peers += [Peer("shop.0"), Peer()]
    connection, link = connect(peers[0])
    link.add([peers[1].address])
    peers[0].brokers.pop("shop.0").stop()
    peers[1].brokers["shop.0"] = EmbeddedBroker("shop.0", SystemClock())
    send(connection, "1")
    assert arrived(peers[1].brokers["shop.0"]) == ["1"]
    connection.close()


def test_a_link_is_redirected_from_a_leader_that_goes_on(peers: list[Peer]) -> None:
    peers += [Peer("shop.0"), Peer("shop.0")]
    connection, link = connect(peers[0])
    send(connection, "1")
    link.redirect(peers[0].address)
    send(connection, "2")
    link.redirect(peers[1].address)
    wait_until(lambda: bool(peers[1].brokers["shop.0"].clients()))
    send(connection, "3")
    assert [arrived(peer.brokers["shop.0"]) for peer in peers] == [["1", "2"], ["3"]]
    connection.close()


def test_a_link_with_a_limit_is_given_up(peers: list[Peer]) -> None:
    peers.append(Peer("shop.0"))
    _, link = connect(peers[0], attempts=2)
    peers[0].close()
    wait_until(lambda: link.is_over)


def test_links_are_encrypted(peers: list[Peer], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity = authority.sign("first")
    tls = LinkTls(certificate=identity.certificate, key=identity.key, authorities=authority.file)
    peers.append(Peer("shop.0", tls=tls))
    connection, _ = connect(peers[0])
    send(connection, "1")
    assert arrived(peers[0].brokers["shop.0"]) == ["1"]
    connection.close()


def test_a_certificate_of_another_authority_is_refused(peers: list[Peer], tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    identity = authority.sign("first")
    peers.append(
        Peer("shop.0", tls=LinkTls(certificate=identity.certificate, key=identity.key, authorities=other.file))
    )
    with pytest.raises(ResourceError, match="certificate"):
        connect(peers[0])
