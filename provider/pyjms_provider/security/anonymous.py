"""Letting anybody in: only where an operator said so (``--anonymous``). The broker never does so by itself."""

from __future__ import annotations

from pyjms_provider.security.contracts import Authenticator, Credentials, PasswordCredentials, Principal
from pyjms_provider.security.refusals import wrong_credentials

__all__ = ["AnonymousAuthenticator"]


class AnonymousAuthenticator(Authenticator):
    """Takes whoever offers no credentials for one and the same principal.

    Whoever does offer some is judged by another authenticator, or not let in: a wrong password must not look right.
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


def _is_empty(credentials: Credentials) -> bool:
    """Tell whether a client sent the headers of user and password with nothing in them."""
    return isinstance(credentials, PasswordCredentials) and not credentials.user_name and not credentials.password
