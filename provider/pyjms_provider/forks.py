"""Cleanup in forked children, of resources that belong to this process alone.

Children inherit each open file. A socket ends for its peer, and a port or a lock is free, only when the last process has closed it:
a child that lives on would keep them after its parent was killed. And data that a child sends on a socket would look like its parent's.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

__all__ = ["AfterFork", "forget_in_children", "let_go"]


class AfterFork(Protocol):
    """An object with resources that belong to this process alone."""

    def forget(self) -> None:
        """Release the resources, in a child. It has no other thread, and locks may be held for ever: they are replaced, not taken."""
        ...


# Weak: an owner that no longer exists has nothing to release.
_known: WeakSet[AfterFork] = WeakSet()


def forget_in_children(owner: AfterFork) -> None:
    """Call `owner.forget` in each forked child of this process, as long as the owner exists."""
    _known.add(owner)


def let_go(descriptor: int) -> None:
    """Release an open file; a number below 0 is of none. Code that still has its number finds /dev/null there, and may close it."""
    if descriptor < 0:
        return
    try:
        # Its number goes to another file and is not freed: an object that still has it would close a file opened later.
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # the limit of open files is reached
        os.close(descriptor)
        with suppress(OSError):
            os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)  # gets its number, the only free one
        return
    os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def _after_fork_in_child() -> None:
    # A copy, as forgetting may end objects that are in the set.
    for owner in list(_known):
        owner.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
