"""The switch of the fast paths, each of which does the work of a longer path beside it.

Contributors turn them off, so that the tests go the longer ways (docs/how-to/work-on-pyjms.md); it is no option for users.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["FAST_PATHS"]

FAST_PATHS: Final[bool] = os.environ.get("PYJMS_FAST_PATHS") != "off"
"""Read once, at import: a look at the environment would cost more than some of these paths save."""
