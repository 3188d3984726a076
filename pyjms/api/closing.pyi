# Written by tools/make_stubs.py from pyjms/api/closing.py: change that file, then run the script.
# ruff: noqa: I001, Q000, RUF100
# fmt: off
from types import TracebackType
from typing import Self
from pyjms.api.names import Interface

__all__ = ['Closeable']

class Closeable(Interface):
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
