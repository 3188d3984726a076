"""Message systems without messages, one for each provider that the contract tests run on."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_numbers = count(1)


@pytest.fixture
def vm_url() -> Iterator[str]:
    from pyjms.spi.registry import find_provider
    from pyjms.spi.url import ProviderUrl

    url = f"vm://contract-{next(_numbers)}"
    yield url
    find_provider("vm").stop_broker(ProviderUrl.parse(url))


@pytest.fixture
def kept_url(vm_url: str, tmp_path: Path) -> str:
    return f"{vm_url}?store=sqlite:///{tmp_path}/kept.db"


@pytest.fixture
def folder_url(tmp_path: Path) -> Iterator[str]:
    from pyjms.spi.registry import register_provider
    from tests.pyjms.spi.folder import FolderProvider

    register_provider("folder", FolderProvider())
    yield f"folder://{tmp_path}/messages?poll_ms=5"
    register_provider("folder", None)


@pytest.fixture
def faulty_url(vm_url: str) -> Iterator[str]:
    from pyjms.testing import Faults

    with Faults(vm_url) as faults:
        yield faults.url


@pytest.fixture(params=["vm", "kept", "folder", "faulty"])
def provider_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
