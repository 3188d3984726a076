r"""How header names and values are escaped: not at all in 1.0, ``\\ \n \c`` in 1.1, and ``\r`` too in 1.2.

STOMP 1.2, "Value Encoding": CONNECT and CONNECTED are never escaped, and undefined sequences are a fatal error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyjms_provider.protocols.stomp.errors import FrameError
from pyjms_provider.protocols.stomp.frames import Version

__all__ = ["UNESCAPED_COMMANDS", "escape", "unescape"]

UNESCAPED_COMMANDS = frozenset({"CONNECT", "CONNECTED", "STOMP"})

_MEANINGS: Mapping[Version, Mapping[str, str]] = {
    Version.V1_1: {"\\\\": "\\", "\\n": "\n", "\\c": ":"},
    Version.V1_2: {"\\\\": "\\", "\\n": "\n", "\\c": ":", "\\r": "\r"},
}
_TABLES = {
    version: str.maketrans({meaning: sequence for sequence, meaning in meanings.items()})
    for version, meanings in _MEANINGS.items()
}
_SEQUENCE = re.compile(r"\\(?:.|\Z)", re.DOTALL)


def escape(text: str, version: Version) -> str:
    """Return `text` as it stands in a header of `version`, 1.1 or 1.2."""
    return text.translate(_TABLES[version])


def unescape(text: str, version: Version) -> str:
    """Return what `text` means in `version`, 1.1 or 1.2. Raises `FrameError` for a sequence that has no meaning there."""
    if text.count("\\") == text.count("\\c"):
        return text.replace("\\c", ":")  # message ids have colons, and most texts no more than that
    meanings = _MEANINGS[version]
    try:
        return _SEQUENCE.sub(lambda found: meanings[found[0]], text)
    except KeyError as error:
        raise FrameError(
            f"a header has the escape sequence {error.args[0]!r}, which STOMP {version.value} does not define: "
            f"write one of {' '.join(meanings)}"
        ) from None
