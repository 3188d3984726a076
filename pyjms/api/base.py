"""The shared parts of the API's interfaces: `Closeable`, whose ``with`` block ends in a close, `Enumeration`, and the exceptions of look-ups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from pyjms.api.names import Interface, JavaNames
from pyjms.errors import CheckedThrowable, RuntimeThrowable


class Closeable(Interface, declares=True):
    """An object that has to be closed when it is no longer needed."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Release the resources of this object. Closing twice does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


T = TypeVar("T")


class NoSuchElementException(RuntimeThrowable, LookupError):
    """java.util.NoSuchElementException: `Enumeration.next_element` was called after the last element."""


class Enumeration(JavaNames, Iterator[T], Generic[T], declares=True):
    """The elements of `elements`, once, in order. Checking for more takes one element ahead.

    A class that is written as in Java, with both methods and nothing else, can be iterated over, too. Not for several
    threads at a time.
    """

    __slots__ = ("_ahead", "_elements")

    def __init__(self, elements: Iterable[T] = ()) -> None:
        self._elements = iter(elements)
        self._ahead: list[T] = []  # the element taken ahead, if any

    def has_more_elements(self) -> bool:
        """Return whether `next_element` has something to return."""
        if not self._ahead:
            for element in self._elements:
                self._ahead.append(element)
                break
        return bool(self._ahead)

    def next_element(self) -> T:
        """Return the next element. Raises `NoSuchElementException` after the last one."""
        if self._ahead:
            return self._ahead.pop()
        for element in self._elements:
            return element
        # StopIteration would end a generator around this call without a word (decision 0301).
        raise NoSuchElementException("the enumeration has no more elements; ask hasMoreElements() first")

    def __iter__(self) -> Enumeration[T]:
        return self

    def __next__(self) -> T:
        if not self.has_more_elements():
            raise StopIteration
        return self.next_element()


class NamingException(CheckedThrowable, Exception):
    """javax.naming.NamingException: the environment cannot be read, or is incomplete.

    As in Java it is not a `JMSException`: it is raised before there is any provider.
    """


class NameNotFoundException(NamingException, LookupError):
    """javax.naming.NameNotFoundException: the name that was looked up does not exist."""
