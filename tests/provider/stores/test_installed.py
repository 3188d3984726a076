"""Stores that other packages bring: found by the scheme of a URL, and told apart from what only looks like one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from pyjms import ConnectionFactory, ResourceAllocationException, Session, TextMessage
from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import MissingProviderError, ProviderError, UrlError
from pyjms.testing import VirtualClock
from pyjms_provider.broker import stop_broker
from pyjms_provider.core.journal.journal import Journal
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.errors import InvalidAttributesError
from pyjms_provider.model.managed import State
from pyjms_provider.settings import StandBy, StoreSettings
from pyjms_provider.stores import contract, opening
from pyjms_provider.stores.errors import (
    AmbiguousStoreError,
    HeldStoreError,
    StoreError,
    StorePluginError,
    UnsupportedStoreError,
)
from pyjms_provider.stores.opening import check_scheme, find_opener, installed_schemes
from pyjms_provider.stores.volatile import Medium
from tests.provider.stores.installing import install, on_the_path

pytestmark = pytest.mark.realises("BJ-ST-6")

STORE = """
from pyjms_provider.model.configuration.writer import MemoryConfigurationStore
from pyjms_provider.stores.contract import StoreOpener
from pyjms_provider.stores.errors import HeldStoreError
from pyjms_provider.stores.volatile import Medium, VolatileJournal

media, configurations, requests = {}, {}, []

class Opener(StoreOpener):
    def open_journal(self, request):
        requests.append(request)
        medium = media.setdefault(request.settings.url, Medium())
        return request.acquire(lambda: VolatileJournal(medium, holder=request.holder))

    def configuration_store(self, url):
        return configurations.setdefault(url, MemoryConfigurationStore())

class Modest(StoreOpener):
    def open_journal(self, request):
        raise HeldStoreError("held by somebody; stop that")

class Faulty(StoreOpener):
    def open_journal(self, request):
        return {}["missing"]

    def configuration_store(self, url):
        return "none"

class Wrong(StoreOpener):
    def open_journal(self, request):
        return object()

class Demanding(Opener):
    def __init__(self, home):
        pass

class Unfinished(StoreOpener):
    pass

not_a_class = 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "packages"
    folder.mkdir()
    with on_the_path(folder):
        yield folder


@pytest.fixture
def named(folder: Path, request: pytest.FixtureRequest) -> None:
    """Install a package with all that a store may be, each under a scheme of its own."""
    points = "\n".join(
        f"{name.lower().replace('_', '-')} = odd_stores:{name}"
        for name in ("Opener", "Modest", "Faulty", "Wrong", "Demanding", "Unfinished", "not_a_class", "not_there")
    )
    points += "\nlost = odd_stores_of_somebody:Opener\nraising = odd_raising:Opener\nsqlite = odd_stores:Wrong"
    raising = "raise RuntimeError('the licence has expired')\n"
    install(folder, "odd-stores", points, odd_stores=STORE, odd_raising=raising)


def opened(url: str, *, stand_by: StandBy = StandBy.REFUSE, cancelled: Signal | None = None) -> Journal:
    settings = StoreSettings(url=url, stand_by=stand_by)
    return opening.open_store(settings, "test", VirtualClock(), on_lost=lambda _: None, cancelled=cancelled)


@pytest.mark.parametrize(
    ("scheme", "told"),
    [
        ("postgresql", "names no driver"),
        ("postgres", "names no driver"),
        ("postgresql+asyncpg", "names another driver"),
    ],
)
def test_a_url_of_postgresql_without_its_driver_says_which_to_name(scheme: str, told: str) -> None:
    with pytest.raises(UnsupportedStoreError, match=rf"{told}.*write postgresql\+psycopg://USER@HOST/DATABASE"):
        check_scheme(f"{scheme}://shop@db/shop")


@pytest.mark.usefixtures("named")
def test_a_scheme_leads_to_the_store_that_a_package_brings() -> None:
    settings, clock = StoreSettings(url="opener://me:secret@here/x?y=1", memory_bytes=5), VirtualClock()
    lost: list[ProviderError] = []
    cancelled = Signal()
    journal = opening.open_store(settings, "shop", clock, on_lost=lost.append, cancelled=cancelled)
    (request,) = sys.modules["odd_stores"].requests
    assert (request.settings, request.holder, request.clock) == (settings, "shop", clock)
    assert request.cancelled is cancelled
    request.on_lost(StoreError("gone"))
    assert [error.reason for error in lost] == ["gone"]
    assert "secret" not in repr(request)
    journal.close(clean=True)


@pytest.mark.usefixtures("named")
def test_nothing_is_imported_for_stores_that_are_not_used(tmp_path: Path) -> None:
    journal = opened(f"sqlite:///{tmp_path}/a.db")
    journal.close(clean=True)
    with pytest.raises(UnsupportedStoreError):
        opened("elsewhere://x")
    assert "odd_stores" not in sys.modules
    assert {"opener", "sqlite", "lost"} <= set(installed_schemes())


@pytest.mark.usefixtures("named")
def test_a_program_uses_it_as_any_other(request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: stop_broker("test_installed"))
    url = f"vm://test_installed?store={quote('opener://here/shop', safe='')}"
    for _ in range(2):
        with ConnectionFactory(url).create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            queue = session.create_queue("orders")
            session.create_producer(queue).send(session.create_text_message("espresso"))
            message = session.create_consumer(queue).receive_no_wait()
            assert isinstance(message, TextMessage)
            session.create_producer(queue).send(session.create_text_message("left"))
        stop_broker("test_installed")
    assert len(sys.modules["odd_stores"].media["opener://here/shop"].messages) == 2


@pytest.mark.usefixtures("named")
def test_a_program_is_told_in_the_words_of_jms(request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: stop_broker("test_installed"))
    with pytest.raises(ResourceAllocationException, match=r"no store is installed for loud://") as caught:
        ConnectionFactory("vm://test_installed?store=loud://x").create_connection()
    assert caught.value.error_code == "PYJMS-STORE-UNSUPPORTED"


@pytest.mark.usefixtures("named")
def test_a_stand_by_broker_waits_for_it() -> None:
    holder = opened("opener://here/x")
    with pytest.raises(HeldStoreError, match="held by broker 'test'"):
        opened("opener://here/x")
    cancelled = Signal()
    cancelled.set()
    with pytest.raises(ProviderError, match="cancelled"):
        opened("opener://here/x", stand_by=StandBy.WAIT, cancelled=cancelled)
    holder.close(clean=True)
    opened("opener://here/x", stand_by=StandBy.WAIT).close(clean=True)


@pytest.mark.usefixtures("named")
def test_an_unknown_scheme_is_answered_with_those_that_are_known(folder: Path) -> None:
    with pytest.raises(
        UnsupportedStoreError,
        match=r"no store is installed for mysql:// \(installed besides SQLite and PostgreSQL: .*modest://, .*opener://.*; "
        r"write sqlite:///FILE or postgresql\+psycopg://.* or install the package .* 'mysql' in the group pyjms\.stores",
    ):
        opened("mysql://me:secret@there/shop")


def test_that_none_is_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.stores.opening.entry_points", lambda **_: ())
    with pytest.raises(UnsupportedStoreError, match=r"besides SQLite and PostgreSQL: none"):
        opened("mysql://me:secret@there/shop")


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize(
    ("scheme", "says"),
    [
        ("lost", r"cannot be imported, as odd_stores_of_somebody is missing: install that"),
        ("raising", r"cannot be imported: RuntimeError: the licence has expired; install another version"),
        ("not-there", r"cannot be imported: AttributeError: .*not_there.*; install another version"),
        ("not-a-class", r"is no class that implements pyjms_provider\.stores\.contract\.StoreOpener; install another"),
        ("demanding", r"cannot be made without arguments: TypeError: .*home.*; install another version"),
        ("unfinished", r"cannot be made without arguments: TypeError: .*open_journal.*; install another version"),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_named_with_its_package(scheme: str, says: str) -> None:
    with pytest.raises(StorePluginError, match=rf"the store of {scheme}:// \(package odd-stores 1\.0: .*\) {says}"):
        find_opener(scheme)


@pytest.mark.usefixtures("named")
def test_what_a_store_does_wrong_is_told_as_its_fault() -> None:
    with pytest.raises(StorePluginError, match=r"odd_stores:Faulty has failed: KeyError: 'missing'; .* author"):
        opened("faulty://x")
    with pytest.raises(
        StorePluginError, match=r"odd_stores:Wrong has given a object that is no .*core\.journal\.journal\.Journal"
    ):
        opened("wrong://x")
    with pytest.raises(StorePluginError, match=r"Faulty has given a str that is no .*contract\.ConfigurationStore"):
        opening.configuration_store("faulty://x", SystemClock())


@pytest.mark.usefixtures("named")
def test_a_stores_own_errors_are_told_as_they_are() -> None:
    with pytest.raises(HeldStoreError, match=r"^held by somebody; stop that$"):
        opened("modest://x")
    with pytest.raises(UnsupportedStoreError, match="keeps messages, and no configuration"):
        opening.configuration_store("modest://x", SystemClock())


def test_two_packages_with_one_scheme_are_refused_by_name(folder: Path) -> None:
    for package in ("first-store", "second-store"):
        module = package.replace("-", "_")
        install(folder, package, f"twice = {module}:Opener", **{module: STORE})
    with pytest.raises(
        AmbiguousStoreError,
        match=r"twice:// is brought by package first-store 1\.0: first_store:Opener and package second-store 1\.0: .*: "
        r"uninstall all but one",
    ):
        find_opener("twice")


def test_two_packages_that_name_the_same_object_agree(folder: Path) -> None:
    install(folder, "old-name", "same = same_store:Opener", same_store=STORE)
    install(folder, "new-name", "same = same_store:Opener")
    assert isinstance(find_opener("same"), contract.StoreOpener)


@pytest.mark.parametrize("url", ["shop.db", "/var/lib/shop.db", "", "://x", "1x://y"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UrlError, match=r"the store is no URL; write for instance sqlite:///shop\.db"):
        opened(url)
    with pytest.raises(UrlError):
        opening.configuration_store(url, SystemClock())


def test_a_package_that_a_bundled_store_needs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("pyjms_provider.stores.sql", "pyjms_provider.stores.sql.configuration"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingProviderError, match=r"store= needs .*pip install 'pyjms-messaging\[store\]'"):
        opened(f"sqlite:///{tmp_path}/a.db")
    with pytest.raises(MissingProviderError, match=r"pip install 'pyjms-messaging\[store\]'"):
        opening.configuration_store(f"sqlite:///{tmp_path}/a.db", SystemClock())


@pytest.mark.usefixtures("named")
def test_a_served_broker_keeps_messages_and_configuration_there(tmp_path: Path) -> None:
    node_url, store_url = "opener://me@here/node", "opener://me@here/messages"
    for _ in range(2):
        system = SystemConfig.opened(
            clock=VirtualClock(), broker={"name": "shop"}, context={"pyjms.work_dir": str(tmp_path)}
        )
        try:
            node = system.broker.create_child(
                "virtual_host_node", {"name": "main", "type": "store", "url": node_url, "password": "secret"}
            )
            hosts = list(node.children("virtual_host"))
            if not hosts:
                hosts = [node.create_child("virtual_host", {"name": "shop", "store_url": store_url})]
                hosts[0].create_child("queue", {"name": "orders"})
            assert [each.name for each in hosts[0].children("queue")] == ["orders"]
            assert hosts[0].state is State.ACTIVE
        finally:
            system.close()
    stores = sys.modules["odd_stores"]
    assert list(stores.configurations) == ["opener://me:secret@here/node"]
    assert [type(medium) for medium in stores.media.values()] == [Medium]


def test_a_node_whose_url_holds_a_password_is_refused() -> None:
    system = SystemConfig.opened(clock=VirtualClock(), broker={"name": "shop"})
    with pytest.raises(
        InvalidAttributesError, match=r"url: holds a password, which would be seen; give it as password"
    ):
        system.broker.create_child(
            "virtual_host_node", {"name": "main", "type": "store", "url": "opener://me:secret@here/node"}
        )
    system.close()
