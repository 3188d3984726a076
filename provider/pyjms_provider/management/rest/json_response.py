r"""JSON as answers have it, whatever texts are in it.

Java's strings, and so those of messages, may hold half of a surrogate pair. UTF-8 cannot, so it is written as JSON escapes it, ``\ud800``:
one such message would else keep an operator from seeing the others of its queue. All answers are made by this class.
"""

from __future__ import annotations

import json
from typing import Any

from starlette import responses

__all__ = ["JSONResponse"]


class JSONResponse(responses.JSONResponse):
    """As Starlette's, for all texts."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # Half of a pair stands in a string, where this is JSON's own escape of it.
        return text.encode("utf-8", "backslashreplace")
