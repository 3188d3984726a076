"""What to say when the extra `history` is not installed."""

from __future__ import annotations

from types import ModuleType

from pyjms.spi.errors import MissingProviderError


def parquet() -> ModuleType:
    """Return `pyjms.history.parquet`. Raises `MissingProviderError` that names what to install."""
    try:
        from pyjms.history import parquet as found
    except ImportError as error:
        raise MissingProviderError(
            f"recorded histories need pyarrow ({error}); install it with: pip install 'pyjms-messaging[history]'"
        ) from error
    return found
