"""The former place of `pyjms_provider.stores.configuration_contract`, until 0.3."""

from __future__ import annotations

import warnings
from typing import Any

from pyjms_provider.stores import configuration_contract


def __getattr__(name: str) -> Any:
    found = getattr(configuration_contract, name)
    warnings.warn(
        f"import {name} from pyjms_provider.stores.configuration_contract: this module goes with 0.3",
        DeprecationWarning,
        stacklevel=2,
    )
    return found
