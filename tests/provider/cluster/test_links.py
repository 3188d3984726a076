"""Links between members: who gets in, to which broker, over TLS, and to which member when the leader changes."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from threading import enumerate as threads

import pytest

from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import AccessDeniedError, CapabilityError, ResourceError
from pyjms.spi.provider import ProviderConnection
from pyjms.spi.xid import Xid
from pyjms.testing import VirtualClock
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.cluster.links import LinkRequest
from pyjms_provider.cluster.settings import LinkSettings, LinkTls
from pyjms_provider.serving.cluster_links import ClusterLinks, OpenLink, OpenLinkPort
from pyjms_provider.settings import BrokerSettings, StoreSettings
from pyjms_provider.transport.settings import ListenerSettingsError
from tests.provider.cluster.world import wait_until
from tests.provider.helpers import RecordedEvents, make_envelope
from tests.provider.transport.certificates import Authority
from tests.system.network.proxy import Proxy

SECRET = "the secret of the cluster"


class Peer:
    """A link port, and the brokers behind it."""

    def __init__(self, *names: str, tls: LinkTls | None = None, folder: Path | None = None) -> None:
        """`folder`: where the brokers have their stores; None: in memory."""
        self.brokers = {
            name: EmbeddedBroker(
                name,
                SystemClock(),
                BrokerSettings(store=None if folder is None else StoreSettings(url=f"sqlite:///{folder / name}.db")),
            )
            for name in names
        }
        self.links = ClusterLinks("shop", None)
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
    *peers: Peer,
    broker: str = "shop.0",
    secret: str = SECRET,
    attempts: int = 0,
    tls: LinkTls | None = None,
    ports: Sequence[int] = (),
    clock: Clock | None = None,
) -> tuple[ProviderConnection, OpenLink]:
    request = LinkRequest(
        broker=broker,
        addresses=[f"127.0.0.1:{port}" for port in ports] or [peer.address for peer in peers],
        member="first",
        secret=secret,
        tls=tls,
        timeout_ms=10_000,
        attempts=attempts,
    )
    return peers[0].links.connect(request, clock or SystemClock(), RecordedEvents())


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


def test_who_does_not_know_the_secret_is_refused(
    peers: list[Peer], certified: Members, caplog: pytest.LogCaptureFixture
) -> None:
    for tls in (None, certified.tls()):
        caplog.clear()
        peers.append(Peer("shop.0", tls=tls))
        with pytest.raises(AccessDeniedError):
            connect(peers[-1], secret="another", tls=tls)
        await_line(caplog, "PYJMS-STOMP-1", "login refused")


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


def test_a_link_goes_to_the_next_leader_without_waiting_for_its_next_attempt(peers: list[Peer]) -> None:
    peers += [Peer("shop.0"), Peer("shop.1")]
    clock = VirtualClock()
    connection, link = connect(*peers, clock=clock)
    peers[0].brokers.pop("shop.0").stop()
    wait_until(lambda: any(clock.is_waiting(each.ident or 0) for each in threads() if "healer" in each.name))
    # The clock stands still, so that the pause after a vain attempt has no end of its own.
    peers[1].brokers["shop.0"] = EmbeddedBroker("shop.0", SystemClock())
    link.redirect(peers[1].address)
    send(connection, "1")
    assert arrived(peers[1].brokers["shop.0"]) == ["1"]
    connection.close()


def test_a_link_with_a_limit_is_given_up(peers: list[Peer]) -> None:
    peers.append(Peer("shop.0"))
    _, link = connect(peers[0], attempts=2)
    peers[0].close()
    wait_until(lambda: link.is_over)


class Members:
    """Certificates of members by one authority, and of others by another one."""

    def __init__(self, folder: Path) -> None:
        self.authority, self._other = Authority(folder), Authority(folder, "other")
        self._names = count(1)

    def tls(self, *, foreign: bool = False, trusts_foreign: bool = False) -> LinkTls:
        identity = (self._other if foreign else self.authority).sign(f"member-{next(self._names)}")
        authorities = (self._other if trusts_foreign else self.authority).file
        return LinkTls(certificate=identity.certificate, key=identity.key, authorities=authorities)


@pytest.fixture
def certified(tmp_path: Path) -> Members:
    return Members(tmp_path)


def test_both_ends_of_a_link_show_certificates(peers: list[Peer], certified: Members) -> None:
    peers.append(Peer("shop.0", tls=certified.tls()))
    connection, _ = connect(peers[0], tls=certified.tls())
    send(connection, "1")
    assert arrived(peers[0].brokers["shop.0"]) == ["1"]
    connection.close()


def test_a_link_port_of_another_authority_is_not_trusted(peers: list[Peer], certified: Members) -> None:
    peers.append(Peer("shop.0", tls=certified.tls(foreign=True)))
    with pytest.raises(ResourceError, match="CERTIFICATE_VERIFY_FAILED"):
        connect(peers[0], tls=certified.tls())


def test_renewed_certificates_are_used_for_new_links_and_unusable_ones_are_not(
    peers: list[Peer], certified: Members
) -> None:
    theirs, own, renewed = certified.tls(foreign=True), certified.tls(foreign=True), certified.tls()
    peers.append(Peer("shop.0", tls=theirs))
    assert theirs.key is not None
    assert own.key is not None
    assert renewed.key is not None
    with pytest.raises(ResourceError, match="CERTIFICATE_VERIFY_FAILED"):
        connect(peers[0], tls=renewed)
    theirs.certificate.write_bytes(renewed.certificate.read_bytes())
    with pytest.raises(ListenerSettingsError):
        peers[0].port.reload_certificates(theirs)  # the key is another one's
    theirs.key.write_bytes(renewed.key.read_bytes())
    with pytest.raises(ResourceError, match="CERTIFICATE_VERIFY_FAILED"):
        connect(peers[0], tls=renewed)
    peers[0].port.reload_certificates(theirs)
    connection, _ = connect(peers[0], tls=renewed)
    connection.close()
    # The end that connects reads its files for each link.
    with pytest.raises(ResourceError):
        connect(peers[0], tls=own)
    own.certificate.write_bytes(renewed.certificate.read_bytes())
    own.key.write_bytes(renewed.key.read_bytes())
    connection, _ = connect(peers[0], tls=own)
    connection.close()


def test_a_member_with_a_certificate_of_another_authority_is_refused(
    peers: list[Peer], certified: Members, caplog: pytest.LogCaptureFixture
) -> None:
    peers.append(Peer("shop.0", tls=certified.tls()))
    with pytest.raises(ResourceError):
        connect(peers[0], tls=certified.tls(foreign=True))
    await_line(caplog, "PYJMS-NET-7", "the client's certificate is refused: ")
    assert peers[0].brokers["shop.0"].clients() == {}


def test_a_peer_without_a_certificate_is_refused(
    peers: list[Peer], certified: Members, caplog: pytest.LogCaptureFixture
) -> None:
    peers.append(Peer("shop.0", tls=certified.tls()))
    context = certified.authority.client_context()
    plain = socket.create_connection(("127.0.0.1", peers[0].port.port), timeout=10)
    with plain, pytest.raises((ssl.SSLError, ConnectionError)):
        encrypted = context.wrap_socket(plain, server_hostname="127.0.0.1")
        with encrypted:
            # With TLS 1.3 the client learns of it by its first read.
            encrypted.sendall(LOGIN)
            if not encrypted.recv(1):
                raise ConnectionError("the link port has hung up")
    await_line(caplog, "PYJMS-NET-7", "showed no certificate")


def test_plain_text_at_a_link_port_with_tls_is_refused(
    peers: list[Peer], certified: Members, caplog: pytest.LogCaptureFixture
) -> None:
    peers.append(Peer("shop.0", tls=certified.tls()))
    with pytest.raises(ResourceError):
        connect(peers[0], tls=None)
    await_line(caplog, "PYJMS-NET-7", "spoke no TLS")
    with socket.create_connection(("127.0.0.1", peers[0].port.port), timeout=10) as plain:
        plain.sendall(LOGIN)
        answer = plain.makefile("rb").read()
    assert b"CONNECTED" not in answer


class Translator(Proxy):
    """Changes what the two ends of a link say when they greet each other."""

    def __init__(self, peer: Peer, *changes: tuple[bytes, bytes]) -> None:
        super().__init__(("127.0.0.1", peer.port.port))
        self._changes = changes
        self.made: list[bytes] = []

    def _pass_on(self, sink: socket.socket, data: bytes) -> None:
        for old, new in self._changes:
            if re.search(old, data):
                data = re.sub(old, new, data, count=1)
                self.made.append(new)
        super()._pass_on(sink, data)


def test_a_link_to_a_newer_member_ignores_what_only_that_knows(peers: list[Peer], tmp_path: Path) -> None:
    peers.append(Peer("shop.0", folder=tmp_path))
    newer = (
        (rb"^CONNECT\n", rb"CONNECT\npyjms-next:1\n"),
        (rb"\ncapabilities:", rb"\nlater:true\nadvice-TELEPORT:none\ncapabilities:TELEPORT,"),
        (rb"\nserver:[^\n]*", rb"\nserver:pyjms/9.0"),
    )
    with Translator(peers[0], *newer) as between:
        connection, _ = connect(peers[0], ports=[between.port])
        send(connection, "1")
        session = connection.open_session(transacted=True)
        session.send(make_envelope("2", destination=Address(AddressKind.QUEUE, "orders")))
        xid = Xid(1, b"transaction", b"part")
        assert session.prepare(xid)
        session.xa_commit(xid)
        assert between.made == [new for _, new in newer]
        connection.close()
    assert arrived(peers[0].brokers["shop.0"]) == ["1", "2"]


def test_a_link_to_an_older_member_refuses_what_that_cannot(peers: list[Peer], tmp_path: Path) -> None:
    peers.append(Peer("shop.0", folder=tmp_path))
    with Translator(peers[0], (rb"\nprepare:true", b""), (rb"\nfind:true", b"")) as between:
        connection, _ = connect(peers[0], ports=[between.port])
        session = connection.open_session(transacted=True)
        session.send(make_envelope("1", destination=Address(AddressKind.QUEUE, "orders")))
        with pytest.raises(CapabilityError, match="or is an older one"):
            session.prepare(Xid(1, b"transaction", b"part"))
        session.rollback()
        session.send(make_envelope("2", destination=Address(AddressKind.QUEUE, "orders")))
        session.commit()
        assert between.made == [b"", b""]
        connection.close()
    assert arrived(peers[0].brokers["shop.0"]) == ["2"]


LOGIN = f"CONNECT\naccept-version:1.2\nhost:shop.0\nlogin:first\npasscode:{SECRET}\n\n\0".encode()


def await_line(caplog: pytest.LogCaptureFixture, *words: str) -> None:
    """Return when a line with all these words is in the log, which the port's thread writes."""
    wait_until(lambda: any(all(word in line for word in words) for line in list(caplog.messages)), f"{caplog.messages}")
