"""The example of the authors' guide, imported from where its readers find it."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[3] / "docs" / "provider-authors"


def _load() -> Any:
    name = "folder_provider"
    if name not in sys.modules:
        spec = spec_from_file_location(name, GUIDE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


folder_provider = _load()
FolderProvider = folder_provider.FolderProvider
