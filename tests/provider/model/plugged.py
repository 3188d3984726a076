"""Packages that extend the broker, in this process, which forgets afterwards what they brought."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyjms_provider.core import queue_types
from pyjms_provider.model import plugins, tree
from pyjms_provider.model.attributes import declarations
from tests.provider.stores.installing import on_the_path


@contextmanager
def packages(folder: Path) -> Iterator[Path]:
    """Give a folder for packages, which is on the path."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch, on_the_path(folder):
        patch.setattr(tree, "TREE", tree.TREE)
        patch.setattr(tree, "_added", dict(tree._added))
        patch.setattr(tree, "_refused", dict(tree._refused))
        patch.setattr(plugins, "_tried", set(plugins._tried))
        patch.setattr(queue_types, "_made", dict(queue_types._made))
        yield folder
    declarations.cache_clear()
