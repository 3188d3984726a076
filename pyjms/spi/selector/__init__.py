"""Message selectors (JMS 1.1 §3.8): a condition on header fields and properties, in a subset of SQL-92.

A text is parsed (`grammar.lark`, `parse`), checked (`check`) and compiled to a Python function (`compile`); users
of selectors need only the names below. Nothing here depends on time, threads or sockets.
"""

from typing import TYPE_CHECKING

from pyjms.spi.selector.selector import Selector, compile_selector, is_same_text, selector_or_none

__all__ = ["Explanation", "Selector", "compile_selector", "is_same_text", "quote", "selector_or_none"]

if TYPE_CHECKING:
    from pyjms.spi.selector.explain import Explanation
    from pyjms.spi.selector.lexical import quote
else:

    def __getattr__(name: str) -> object:
        """Import rarely used names on first access."""
        match name:
            case "Explanation":
                from pyjms.spi.selector.explain import Explanation

                return Explanation
            case "quote":
                from pyjms.spi.selector.lexical import quote

                return quote
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
