"""Letting anybody in: only where an operator said so (``--anonymous``). The broker never does so by itself."""

from __future__ import annotations

from dataclasses import replace

from pyjms_provider.security.contracts import (
    TOKEN_USER,
    Authenticator,
    Credentials,
    PasswordCredentials,
    Principal,
    TokenCredentials,
)
from pyjms_provider.security.refusals import wrong_credentials


class AnonymousAuthenticator(Authenticator):
    """Authenticates all clients without credentials as one principal.

    Clients with credentials need another authenticator, or are refused: a wrong password must not look right.
    """

    def __init__(
        self, *, name: str = "anonymous", user_name: str = "anonymous", groups: frozenset[str] = frozenset()
    ) -> None:
        """`name`: of this provider; `user_name`: of the principal."""
        self._principal = Principal(name=user_name, groups=groups, provider=name)

    def handles(self, credentials: Credentials | None) -> bool:
        return credentials is None or _is_empty(credentials)

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        if not self.handles(credentials):
            raise wrong_credentials()
        return self._principal


class UncheckedLogins(Authenticator):
    """Takes each client for one that offers no credentials, and notes the user name that it sent.

    For ports that are served by `AnonymousAuthenticator` alone: many clients send a login, such as guest, wherever they connect to.
    Where another authenticator serves the port, too, it must judge what is sent: a wrong password must not look right.
    """

    def __init__(self, anonymous: Authenticator) -> None:
        """`anonymous`: says who a client without credentials is."""
        self._anonymous = anonymous

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        principal = self._anonymous.authenticate(None, peer=peer)
        if isinstance(credentials, TokenCredentials):
            return replace(principal, unchecked_login=TOKEN_USER)
        if isinstance(credentials, PasswordCredentials) and not _is_empty(credentials):
            return replace(principal, unchecked_login=credentials.user_name)
        return principal


def _is_empty(credentials: Credentials) -> bool:
    """Tell whether a client sent the headers of user and password with nothing in them."""
    return isinstance(credentials, PasswordCredentials) and not credentials.user_name and not credentials.password
