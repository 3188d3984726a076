"""Users who are changed or deleted while they log in: an authentication that began before the change no longer counts.

A log-in takes the mark, authenticates the user, registers where a revocation would end it, and then checks the mark. A revocation is
first recorded here, and then ends the registered log-ins. So one of the two always sees the other.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms_provider.security.refusals import wrong_credentials

if TYPE_CHECKING:
    from pyjms_provider.security.contracts import Principal

_USERS_MAX: Final = 1000
"""More than are changed while one logs in, save by a program: who logs in meanwhile is to do it once more."""


class RevocationGuard:
    """Safe to use from any thread; the lock is taken alone."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._number = 0
        self._forgotten = 0
        """Which of all shut-outs was the last one of those users who are not in `_latest` any more."""
        self._latest: OrderedDict[tuple[str, str], int] = OrderedDict()
        """By provider and user: which of all shut-outs was the last one of that user."""

    @property
    def mark(self) -> int:
        """Tells which users are shut out from now on. To be taken before it is looked who somebody is."""
        return self._number

    def note(self, provider: str, user_name: str) -> None:
        """Note that a user, for whom an authentication provider vouched, is not any more who logged in."""
        key = provider, user_name
        with self._lock:
            self._number += 1
            self._latest[key] = self._number
            self._latest.move_to_end(key)
            if len(self._latest) > _USERS_MAX:
                _, self._forgotten = self._latest.popitem(last=False)

    def check(self, principal: Principal, mark: int) -> None:
        """Raise `AccessDeniedError` if that user has been shut out since `mark` was taken, or might have been: too many others were."""
        with self._lock:
            latest = self._latest.get((principal.provider, principal.name), self._forgotten)
        if latest > mark:
            raise wrong_credentials()
