"""The former place of `pyjms_provider.security.access`, until 0.3."""

from __future__ import annotations

import warnings
from typing import Any

from pyjms_provider.security import access


def __getattr__(name: str) -> Any:
    found = getattr(access, name)
    warnings.warn(
        f"import {name} from pyjms_provider.security.access: this module goes with 0.3",
        DeprecationWarning,
        stacklevel=2,
    )
    return found
