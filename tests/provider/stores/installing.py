"""Packages as `pip` would have installed them: a folder on the path, with entry points."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent


def install(folder: Path, package: str, entry_points: str, *, group: str = "pyjms.stores", **modules: str) -> None:
    """Put modules into `folder`, and the metadata of a package that has `entry_points` in a group; group "": they name their groups."""
    metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{entry_points}\n" if group else entry_points, "utf-8")
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(dedent(text), "utf-8")


@contextmanager
def on_the_path(folder: Path) -> Iterator[None]:
    """Have this process find what is in `folder`, and forget afterwards what was imported from there."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{folder}/"):
                del sys.modules[name]
        importlib.invalidate_caches()
