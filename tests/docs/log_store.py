"""The example of the guide to stores, imported from where its readers find it."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from tests.pyjms.spi.folder import GUIDE

EXAMPLE = GUIDE / "log_store.py"


def _load() -> Any:
    name = "log_store_of_the_guide"  # not the name that it is installed under in tests
    if name not in sys.modules:
        spec = spec_from_file_location(name, EXAMPLE)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


log_store = _load()
