"""The contracts of packages that bring authentication or access control.

A package registers a class as an entry point; the name of the entry point is the type of the managed object, as operators write it. The class is
constructed without arguments. What it makes is called by any thread, also by several at once.

Errors of a plug-in outside the contract let nobody in and allow nothing: `CheckedAuthenticator` and `CheckedPolicy` see to that.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeVar

from pyjms.spi.clock import Clock
from pyjms.spi.envelope import ConnectionId
from pyjms.spi.errors import AccessDeniedError, ProviderError
from pyjms.spi.words import reason_of
from pyjms_provider.security.access import owned_decision
from pyjms_provider.security.contracts import (
    AccessPolicy,
    Authenticator,
    Credentials,
    Operation,
    Principal,
    Target,
    TargetKind,
    wrong_credentials,
)
from pyjms_provider.security.logins import Forgiving
from pyjms_provider.security.settings import NoSettings

ACCESS_CONTROL_GROUP: Final = "pyjms.access_controls"
AUTHENTICATION_GROUP: Final = "pyjms.authentication_providers"
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class AuthenticationType(ABC):
    """A type of authentication providers: an entry point of the group ``pyjms.authentication_providers``."""

    title: ClassVar[str] = ""
    """What it is, for operators."""
    settings: ClassVar[type[Any]] = NoSettings
    """A frozen dataclass whose fields, each a `setting`, are the attributes of the provider."""

    @abstractmethod
    def make(self, name: str, settings: Any, clock: Clock) -> Authenticator:
        """Return the authenticator of the provider `name`. Called when the provider is opened, and for each change of its settings.

        May read files. Raises `ProviderError` or `ValueError` for a wrong setting, which the text names: the provider is ERRORED then, or stays as
        it was.
        """


class AccessControlType(ABC):
    """A type of access control: an entry point of the group ``pyjms.access_controls``."""

    title: ClassVar[str] = ""
    """What it is, for operators."""
    settings: ClassVar[type[Any]] = NoSettings
    """A frozen dataclass whose fields, each a `setting`, are the attributes of the access control."""

    @abstractmethod
    def make(self, name: str, settings: Any, clock: Clock) -> AccessPolicy:
        """Return the policy of the access control `name`. Called as `AuthenticationType.make`.

        The policy is not asked who may read a temporary destination or another user's durable subscription: that is fixed (JMS 1.1 §4.4.3).
        """


class CheckedAuthenticator(Authenticator):
    """The authenticator of a plug-in: an error outside the contract refuses the log-in."""

    def __init__(self, name: str, inner: Authenticator) -> None:
        """`name`: that of the provider."""
        self._name = name
        self._inner = inner

    def handles(self, credentials: Credentials | None) -> bool:
        try:
            return bool(self._inner.handles(credentials))
        except Exception as error:
            raise self._failed(error) from error

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        try:
            found: object = self._inner.authenticate(credentials, peer=peer)
        except ProviderError:
            raise
        except Exception as error:
            raise self._failed(error) from error
        if not isinstance(found, Principal):
            raise self._failed(TypeError(f"it has returned a {type(found).__name__} and no Principal"))
        # By this name a change of the provider's users ends their connections.
        return found if found.provider == self._name else replace(found, provider=self._name)

    def forgive(self, credentials: Credentials | None, peer: str) -> None:
        """Undo the count of a failed attempt, if the plug-in counts them."""
        inner: object = self._inner
        if isinstance(inner, Forgiving):
            inner.forgive(credentials, peer)

    def _failed(self, error: Exception) -> AccessDeniedError:
        _log.error(
            "PYJMS-SECURITY-9 a log-in was refused, as the authentication provider %s has failed: %s",
            self._name,
            reason_of(error),
        )
        # The client learns no more than after a wrong password.
        return wrong_credentials()


class CheckedPolicy(AccessPolicy):
    """The access policy of a plug-in, which can be replaced: without one nothing is allowed; an error outside the contract denies the operation."""

    def __init__(self, name: str) -> None:
        """`name`: that of the access control."""
        self._name = name
        self._inner: AccessPolicy | None = None
        self._has_failed = False

    def replace(self, policy: AccessPolicy | None) -> None:
        """Let `policy` decide from now on; None: nothing is allowed."""
        self._inner, self._has_failed = policy, False

    @property
    def epoch(self) -> object | None:
        inner = self._inner
        return None if inner is None else self._asked(lambda: inner.epoch)

    def check(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str = ""
    ) -> None:
        fixed = owned_decision(principal, operation, target, connection)
        if fixed is not None:
            if not fixed.is_allowed:
                raise AccessDeniedError(f"{operation.value} is denied: {fixed.reason}")
            return
        inner = self._inner
        if inner is None:
            raise AccessDeniedError(f"the access control {self._name} is not active, so it allows nothing")
        self._asked(lambda: inner.check(principal, operation, target, connection))

    def permitted(
        self, principal: Principal, operation: Operation, kind: TargetKind, virtual_host: str, names: Sequence[str]
    ) -> list[str]:
        inner = self._inner
        if inner is None or kind in {TargetKind.TEMPORARY, TargetKind.SUBSCRIPTION}:
            return super().permitted(principal, operation, kind, virtual_host, names)
        return self._asked(lambda: inner.permitted(principal, operation, kind, virtual_host, names))

    def _asked(self, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except ProviderError:
            raise
        except Exception as error:
            # Once: a policy is asked for each message.
            if not self._has_failed:
                self._has_failed = True
                _log.exception(
                    "PYJMS-SECURITY-10 the access control %s has failed, and what it was asked about is denied",
                    self._name,
                )
            raise AccessDeniedError(
                f"the access control {self._name} has failed: ask an operator of the broker to look at its log"
            ) from error
