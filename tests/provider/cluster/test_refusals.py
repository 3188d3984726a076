"""Members that may not join, with errors that say what to change."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms_provider.cluster.errors import ClusterError
from pyjms_provider.cluster.settings import ClusterSettings, LinkSettings
from pyjms_provider.settings import BrokerSettings, StoreSettings
from pyjms_provider.stores.errors import NewerStoreError, UnavailableStoreError
from pyjms_provider.stores.sql import cluster
from pyjms_provider.stores.sql.cluster import Formats
from tests.ports import free_port
from tests.provider.cluster.world import LONG_MS, SHARDS, ClusterWorld

_DATABASE = "postgresql+psycopg://shop@127.0.0.1/shop"


class SlowClock(SystemClock):
    """A clock that is behind all others."""

    def time_ms(self) -> int:
        return super().time_ms() - 1_500


def settings(**changes: Any) -> ClusterSettings:
    values: dict[str, Any] = {
        "name": "shop",
        "member": "first",
        "virtual_host": "shop",
        "broker": BrokerSettings(store=StoreSettings(url=_DATABASE)),
    }
    return ClusterSettings(**{**values, **changes})


class TestSettings:
    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"name": "Shop"}, "no name of a cluster"),
            ({"name": "s" * 41}, "no name of a cluster"),
            ({"name": 'x"; DROP SCHEMA public'}, "no name of a cluster"),
            ({"member": "1"}, "no name of a member"),
            ({"broker": BrokerSettings()}, "needs a store in PostgreSQL"),
            ({"broker": BrokerSettings(store=StoreSettings(url="sqlite:///shop.db"))}, "needs a store in PostgreSQL"),
            ({"shards": 0}, "no number of shards"),
            ({"shards": 257}, "no number of shards"),
            ({"lease_ms": 10}, "too short"),
        ],
    )
    def test_what_cannot_be_is_refused(self, changes: dict[str, Any], said: str) -> None:
        with pytest.raises(ClusterError, match=said):
            settings(**changes)

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"host": "0.0.0.0"}, "could be read by others"),
            ({"host": "127.0.0.1", "advertised_host": "shop.example"}, "could be read by others"),
            ({"host": "::"}, "could be read by others"),
        ],
    )
    def test_links_that_others_could_read_need_tls(self, changes: dict[str, Any], said: str) -> None:
        with pytest.raises(ClusterError, match=said):
            LinkSettings(**changes)

    def test_within_one_machine_links_need_no_tls(self) -> None:
        for host in ("127.0.0.1", "localhost", "::1"):
            assert LinkSettings(host=host).tls is None


class TestJoining:
    def test_another_number_of_shards_is_refused(self, world: ClusterWorld) -> None:
        assert world.start("first").await_leaders(LONG_MS)
        with pytest.raises(ClusterError, match=f"has {SHARDS} shards, and not 5"):
            world.start("second", shards=5)
        second = world.start("second", shards=None)
        assert second.placement.shards == SHARDS

    def test_another_virtual_host_is_refused(self, world: ClusterWorld) -> None:
        world.start("first")
        with pytest.raises(ClusterError, match="serves the virtual host 'shop', and not 'mail'"):
            world.start("second", virtual_host="mail")

    def test_a_second_member_of_one_name_is_refused(self, world: ClusterWorld) -> None:
        first = world.start("first")
        with pytest.raises(ClusterError, match="has a member first that is alive"):
            world.start("first")
        assert first.await_leaders(LONG_MS)
        assert first.trouble is None

    def test_a_newer_format_is_refused(self, world: ClusterWorld) -> None:
        world.start("first")
        world.execute("UPDATE shop.pyjms_member SET version = '9.0'")
        world.execute("UPDATE shop.pyjms_cluster SET format = 2")
        with pytest.raises(NewerStoreError, match=r"has format 2, .* knows the formats up to 1: .*\(first 9\.0\)"):
            world.start("second")

    def test_a_format_that_is_no_longer_known_is_refused(
        self, world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.start("first")
        monkeypatch.setattr(cluster, "FORMATS", Formats(oldest=2, newest=3))
        with pytest.raises(ClusterError, match=r"has format 1, .* from 2 on: update all members"):
            world.start("second")

    def test_a_wrong_clock_is_refused(self, world: ClusterWorld) -> None:
        with pytest.raises(ClusterError, match="s behind the database's"):
            world.start("first", clock=SlowClock())

    def test_a_database_that_does_not_answer_is_told(self, world: ClusterWorld) -> None:
        url = f"postgresql+psycopg://postgres@127.0.0.1:{free_port()}/postgres"
        with pytest.raises(UnavailableStoreError):
            world.start("first", broker=BrokerSettings(store=StoreSettings(url=url)))

    def test_a_link_port_in_use_is_told_and_nothing_stays(self, world: ClusterWorld) -> None:
        first = world.start("first")
        port = int(first.address.rpartition(":")[2])
        with pytest.raises(ResourceError, match=str(port)):
            world.start("second", link=LinkSettings(port=port))
        assert first.await_leaders(LONG_MS)
        assert [each.name for each in first.status().members] == ["first"]
