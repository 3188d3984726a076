"""The former place of `pyjms_provider.model.broker`, until 0.3."""

from __future__ import annotations

import warnings
from typing import Any

from pyjms_provider.model import broker


def __getattr__(name: str) -> Any:
    found = getattr(broker, name)
    warnings.warn(
        f"import {name} from pyjms_provider.model.broker: this module goes with 0.3", DeprecationWarning, stacklevel=2
    )
    return found
