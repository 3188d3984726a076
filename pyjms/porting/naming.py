"""What things of a Java program are called in Python: the same, unless the name means something there."""

from __future__ import annotations

import builtins
import keyword
from typing import Final

import pyjms

__all__ = ["MODULES", "PYJMS_NAMES", "TYPED_VALUES", "attribute_name", "is_taken", "local_name", "module_path"]

PYJMS_NAMES: Final = frozenset(pyjms.__all__)
TYPED_VALUES: Final = frozenset({"Byte", "Char", "Float", "Long", "Short"})
"""What `pyjms.types` has for values whose type a program may ask for."""
MODULES: Final = ("contextlib", "logging", "math", "os", "random", "sys", "threading", "time", "traceback", "uuid")
"""What ported code imports of Python's own library."""
_TAKEN: Final = (
    frozenset(name for name in dir(builtins) if not name.startswith("_"))
    | PYJMS_NAMES
    | TYPED_VALUES
    | frozenset(MODULES)
    | {"java", "outer", "self"}
)


def _no_keyword(name: str) -> str:
    name = name.replace("$", "_dollar_")
    return f"{name}_" if keyword.iskeyword(name) else name


def local_name(name: str) -> str:
    """Return the name of a variable, which hides no name that the translation may need."""
    return f"{name}_" if name in _TAKEN or name.startswith("_") else _no_keyword(name)


def attribute_name(name: str) -> str:
    """Return the name of a method, or of a field that is not private."""
    return f"{name}_" if name in {"outer", "java_name"} else _no_keyword(name)


def is_taken(name: str) -> bool:
    """Return whether a class of this name would hide what the translation may need."""
    return name in _TAKEN


def module_path(package: str) -> tuple[str, ...]:
    """Return the folders of a package."""
    return tuple(_no_keyword(part) for part in package.split(".")) if package else ()
