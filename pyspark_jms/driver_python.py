"""Has Spark look for ``format("jms")`` with the Python that runs the program, where it would take another one.

Spark's JVM looks for data sources written in Python with the `python3` of the PATH, unless a variable of the environment names another.
Where a program is run as ``.venv/bin/python program.py`` and the environment is not activated, that is a Python without pyjms, and Spark says
DATA_SOURCE_NOT_FOUND. No code of a data source runs before that, so the interpreter's start imports this module, by a file ``.pth`` that is
installed beside it. It waits for `pyspark` to be imported, and does nothing in other programs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

__all__ = ["name_driver_python", "wait_for_pyspark"]

_DRIVER = "PYSPARK_DRIVER_PYTHON"
_NAMED_ALREADY = (_DRIVER, "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT")
"""With the last one a JVM runs already, that of spark-submit."""


class _Finder:
    """Finds no module; hears of the import of `pyspark`, once."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Name the Python when `pyspark` is looked for."""
        if name == "pyspark":
            sys.meta_path.remove(_Finder)
            name_driver_python(os.environ)


def wait_for_pyspark() -> None:
    """Call `name_driver_python` when `pyspark` is imported."""
    if not any(name in os.environ for name in _NAMED_ALREADY) and "pyspark" not in sys.modules:
        sys.meta_path.insert(0, _Finder)


def name_driver_python(environment: MutableMapping[str, str]) -> None:
    """Name this Python for the driver, unless one is named or the `python3` of the PATH is of this environment.

    Only for the driver: Pythons on other machines of a cluster lie elsewhere.
    """
    if any(name in environment for name in _NAMED_ALREADY):
        return
    from shutil import which

    found = which("python3", path=environment.get("PATH"))
    if found is None or os.path.dirname(found) != os.path.dirname(sys.executable):  # noqa: PTH120 -- pathlib would take longer than all else
        environment[_DRIVER] = sys.executable
