"""What the children that this process forks have no business with.

They inherit each open file. A socket ends for its peer, and a port or a lock is free, only when the last process has let go of it: so a
child that lives on would keep them after its parent was killed. And what a child said on a socket, the peer would take for its parent's word.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

__all__ = ["AfterFork", "forget_in_children", "let_go"]


class AfterFork(Protocol):
    """Who has something that is of this process alone."""

    def forget(self) -> None:
        """Let go of it, in a child. No other thread is there, and locks are as they happened to be: they are replaced, not taken."""
        ...


# Weak: an owner that has gone has nothing to let go of.
_known: WeakSet[AfterFork] = WeakSet()


def forget_in_children(owner: AfterFork) -> None:
    """Have `owner` forget in each child of this process, for as long as it is there."""
    _known.add(owner)


def let_go(descriptor: int) -> None:
    """Let go of an open file; a number below 0 is of none. What still has its number finds nothing there, and may close it."""
    if descriptor < 0:
        return
    try:
        # Its number goes to another file and is not freed: an object that still has it would close a stranger's file.
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # as many are open as may be
        os.close(descriptor)
        with suppress(OSError):
            os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)  # has its number, which is the only free one
        return
    os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def _after_fork_in_child() -> None:
    # A copy, as forgetting may end objects that are in the set.
    for owner in list(_known):
        owner.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
