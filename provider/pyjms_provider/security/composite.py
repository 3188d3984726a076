"""Several authenticators, tried in order: of those that judge the credentials' kind, the first that knows them."""

from __future__ import annotations

from collections.abc import Sequence

from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.security.contracts import Authenticator, Credentials, Principal
from pyjms_provider.security.refusals import NO_CREDENTIALS, LogInsBusyError, TooManyAttemptsError, wrong_credentials
from pyjms_provider.security.throttle import Forgiving


class CompositeAuthenticator(Authenticator):
    """Asks one after the other."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        """`authenticators`: in the order in which they are asked; none: nobody is let in."""
        self._authenticators = tuple(authenticators)

    def handles(self, credentials: Credentials | None) -> bool:
        return any(authenticator.handles(credentials) for authenticator in self._authenticators)

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        refusal: AccessDeniedError | None = None
        asked: list[Authenticator] = []
        for authenticator in self._authenticators:
            if not authenticator.handles(credentials):
                continue
            try:
                principal = authenticator.authenticate(credentials, peer=peer)
            except AccessDeniedError as error:
                refusal = error
                # they looked at nothing, and counted nothing
                if not isinstance(error, LogInsBusyError | TooManyAttemptsError):
                    asked.append(authenticator)
            else:
                # They are somebody else's, so that nobody has guessed.
                for other in asked:
                    if isinstance(other, Forgiving):
                        other.forgive(credentials, peer)
                return principal
        if refusal is not None:
            raise refusal
        raise AccessDeniedError(NO_CREDENTIALS) if credentials is None else wrong_credentials()
