"""The classes that pass each call of the SPI on."""

from __future__ import annotations

import inspect

import pytest

from pyjms.spi import ProviderConnection, ProviderConsumer, ProviderSession
from pyjms.spi.delegating import DelegatingConnection, DelegatingConsumer, DelegatingSession


@pytest.mark.parametrize(
    ("contract", "delegating"),
    [
        (ProviderConnection, DelegatingConnection),
        (ProviderSession, DelegatingSession),
        (ProviderConsumer, DelegatingConsumer),
    ],
)
def test_every_call_of_the_contract_passes_through(contract: type, delegating: type) -> None:
    """A call that fell back to the contract's default would refuse what the capabilities promise."""
    members = {name for name, _ in inspect.getmembers(contract) if not name.startswith("_")}
    assert members - set(vars(delegating)) == set()
