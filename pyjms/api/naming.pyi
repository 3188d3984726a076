# Written by tools/make_stubs.py from pyjms/api/naming.py: change that file, then run the script.
# ruff: noqa: I001, Q000, RUF100
# fmt: off
from pyjms.api.names import JavaNames

__all__ = ['NameNotFoundException', 'NamingException']

class NamingException(Exception, JavaNames):
    @property
    def message(self) -> str | None: ...
    def getMessage(self) -> str | None: ...

class NameNotFoundException(NamingException, LookupError):
    ...
