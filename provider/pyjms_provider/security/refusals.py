"""The texts for clients that are refused. One text for every reason that an attacker could learn from."""

from __future__ import annotations

from pyjms.spi.errors import AccessDeniedError

WRONG_CREDENTIALS = "the credentials were refused: check user name and password, certificate or token"
NO_CREDENTIALS = "this broker asks who you are: log in with a user name and a password, a client certificate or a token"


class TooManyAttemptsError(AccessDeniedError):
    """Too many wrong credentials came from this address; nothing was checked."""

    code = "PYJMS-ACCESS-ATTEMPTS"

    def __init__(self, wait_ms: int) -> None:
        """`wait_ms`: milliseconds until the next attempt will be looked at."""
        super().__init__(f"too many wrong credentials from this address: try again in {max(1, -(-wait_ms // 1000))} s")
        self.wait_ms = wait_ms

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.wait_ms,)


class LogInsBusyError(AccessDeniedError):
    """So many log in at this moment that this one was not looked at."""

    code = "PYJMS-ACCESS-BUSY"

    def __init__(self) -> None:
        super().__init__("too many log in at this moment: try again in some seconds")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), ()


def wrong_credentials() -> AccessDeniedError:
    """Return the error for unknown user, wrong password, expired token and all the like: it tells no more than that."""
    return AccessDeniedError(WRONG_CREDENTIALS)
