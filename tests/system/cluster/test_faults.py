"""One section of the faults of a cluster; ``make soak-cluster`` does many, with other seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.cluster.faults import Section, settings_for
from tests.system.cluster.site import ClusterSite

SEED = 5


@pytest.mark.requires("postgresql")
@pytest.mark.timeout(900)  # on a busy machine; a minute and a half on a quiet one
def test_clients_lose_nothing_as_members_links_and_the_database_fail(tmp_path: Path) -> None:
    site = ClusterSite(tmp_path, settings_for(SEED))
    try:
        Section(site, tmp_path / "history", SEED).run()
    finally:
        site.close()
