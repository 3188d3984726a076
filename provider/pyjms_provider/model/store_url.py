"""URLs of stores, whose passwords are attributes of their own: URLs are shown, passwords are not."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from pyjms_provider.model.attributes import Secret

__all__ = ["has_password", "with_password"]

_USER: Final = re.compile(r"^([A-Za-z0-9+.\-]+://[^/@:]*)(?::([^/@]*))?@")


def has_password(url: str) -> bool:
    """Return whether a URL holds a password."""
    found = _USER.match(url)
    return found is not None and found[2] is not None


def with_password(url: str, password: Secret | None) -> str:
    """Return a URL with the password after its user."""
    found = _USER.match(url)
    if found is None or password is None:
        return url
    return f"{found[1]}:{quote(password.get_secret_value(), safe='')}@{url[found.end() :]}"
