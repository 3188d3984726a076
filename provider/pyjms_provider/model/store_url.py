"""URLs of stores, whose passwords are attributes of their own: URLs are shown, passwords are not."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from pyjms_provider.model.attributes import Secret

_IN_QUERY: Final = re.compile(r"[?&]\w*(?:password|passwd|passcode|pwd|secret)=[^&]", re.IGNORECASE)
"""As ``sslpassword`` of PostgreSQL, too, which opens the client's key."""
_USER: Final = re.compile(r"^([A-Za-z0-9+.\-]+://[^/@:]*)(?::([^/@]*))?@")
_WITH_SLASHES: Final = re.compile(r"^[A-Za-z0-9+.\-]+://[^/@:\[]*:(?!\d*/)[^@]*@")
"""SQLAlchemy takes all to the next @ for the password, slashes too; behind a number it is a path with an @."""


def has_password(url: str) -> bool:
    """Return whether a URL holds a password: after its user, or in its query, where drivers of databases take one, too."""
    found = _USER.match(url)
    is_after_user = (found is not None and found[2] is not None) or _WITH_SLASHES.match(url) is not None
    return is_after_user or _IN_QUERY.search(url) is not None


def split_password(url: str) -> tuple[str, str | None]:
    """Return a URL without the password after its user, and that password; None: it holds none."""
    found = _USER.match(url)
    if found is None or found[2] is None:
        return url, None
    return f"{found[1]}@{url[found.end() :]}", unquote(found[2])


def with_password(url: str, password: Secret | None) -> str:
    """Return a URL with the password after its user."""
    found = _USER.match(url)
    if found is None or password is None:
        return url
    return f"{found[1]}:{quote(password.get_secret_value(), safe='')}@{url[found.end() :]}"
