"""Message selectors (JMS 1.1 §3.8): a condition on header fields and properties, in a subset of SQL-92.

A text is parsed (`grammar.lark`, `parse`), checked (`check`) and compiled to a Python function (`compile`); whoever
uses selectors needs only the names below. Nothing here knows time, threads or sockets.
"""

from pyjms.spi.selector.explain import Explanation
from pyjms.spi.selector.literals import quote
from pyjms.spi.selector.selector import Selector, compile_selector, is_same_text, selector_or_none

__all__ = ["Explanation", "Selector", "compile_selector", "is_same_text", "quote", "selector_or_none"]
