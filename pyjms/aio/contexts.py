"""What is to be closed is awaited, or entered by ``async with``, which closes it in the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar


class Closing:
    """The end of an ``async with`` closes it."""

    __slots__ = ()

    async def close(self) -> None:
        """Give back what this object holds. Closing twice does nothing."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Closes(Protocol):
    async def close(self) -> None: ...


_Made = TypeVar("_Made", bound=_Closes)


class Opening(Generic[_Made]):
    """What the `create_…` methods return: ``await`` makes it; so does ``async with``, which also closes what was made."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Awaitable[_Made]]) -> None:
        """`make` is called by each ``await``, and makes one thing."""
        self._make = make
        self._made: _Made | None = None

    def __await__(self) -> Generator[Any, None, _Made]:
        return self._make().__await__()

    async def __aenter__(self) -> _Made:
        self._made = made = await self._make()
        return made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            await self._made.close()
