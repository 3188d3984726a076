"""Which names clients may give to what they make at a broker."""

from __future__ import annotations

from pyjms.spi.errors import ProviderError

__all__ = ["check_name"]


def check_name(name: str, what: str, error: type[ProviderError]) -> None:
    """Raise `error` for a name with half of a surrogate pair, which Java's strings may have.

    UTF-8 has no such thing, so no list, measurement or page that is to show the name could be written: one queue would hide all others.
    """
    try:
        name.encode()
    except UnicodeEncodeError as found:
        raise error(
            f"{what} {name!r} has half of a surrogate pair at {found.start}, which cannot be written: choose another name"
        ) from None
