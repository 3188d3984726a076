"""What has a `close` is a context manager: leaving the ``with`` block closes it."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Self

from pyjms.api.names import Interface


class Closeable(Interface, declares=True):
    """Something to close when it is no longer needed."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Give back what this object holds. Closing twice does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
