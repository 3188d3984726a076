"""A selector that has been parsed, checked and compiled, and the cache of those in use (JMS 1.1 §3.8)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from pyjms.spi.errors import InvalidSelectorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector.explain import Explanation
    from pyjms.spi.selector.headers import Equalities
    from pyjms.spi.selector.nodes import Node

_CACHE_SIZE = 1024
_WORD = re.compile(r"'(?:[^']|'')*'|<>|<=|>=|[=<>+\-*/(),]|[^\s'=<>+\-*/(),]+")
# Longer selectors are rare, and would make the cache large.
_CACHED_LENGTH_MAX = 4096


@dataclass(frozen=True, slots=True, repr=False)
class Selector:
    """A condition on messages. Immutable; equal to every selector of the same text; any thread may use it.

    Made by `compile_selector`.
    """

    text: str
    """The selector as it was given."""
    matches: Callable[[Envelope], bool] = field(compare=False)
    """``matches(envelope)`` returns whether the message is selected: False and unknown are both no (§3.8.1.2).

    The compiled function itself, so that a queue tests a message with a single call.
    """
    identifiers: frozenset[str] = field(compare=False)
    """The names of the header fields and properties that the selector reads."""
    _fails: Callable[[Envelope], bool] = field(compare=False)
    _root: Node = field(compare=False)
    equalities: Equalities = field(default=(), compare=False)
    """The identifiers and values that a message must have to match, for look-ups by value. (): none are known, or the selector reads messages in another way."""

    @property
    def root(self) -> Node:
        """The syntax tree, for translating the condition into another form."""
        return self._root

    def evaluate(self, envelope: Envelope) -> bool | None:
        """Return the value of the condition for a message: True, False, or None for unknown (§3.8.1.2)."""
        if self.matches(envelope):
            return True
        return False if self._fails(envelope) else None

    def explain(self, envelope: Envelope) -> Explanation:
        """Return the value of each clause for a message, and so the deciding ones. For people: it is slow."""
        from pyjms.spi.selector.explain import explain

        return explain(self._root, self.text, envelope)

    def __repr__(self) -> str:
        return f"compile_selector({self.text!r})"

    def __reduce__(self) -> tuple[Callable[[str], Selector], tuple[str]]:
        # Compiled functions cannot be pickled, texts can.
        return compile_selector, (self.text,)


def compile_selector(text: str) -> Selector:
    """Return the selector of `text`; the empty text is a selector that every message satisfies.

    Selectors of ordinary length are cached. Raises `InvalidSelectorError` if the text breaks the rules of JMS 1.1
    §3.8.1.1, is longer than 65,536 characters, or nests more than 100 levels deep.
    """
    return _cached(text) if len(text) <= _CACHED_LENGTH_MAX else _compile(text)


def selector_or_none(text: str | None) -> Selector | None:
    """Return the selector of `text`, or None for None and "", which both mean: no selector (JMS 1.1 §3.8.1.1)."""
    return compile_selector(text) if text else None


def _compile(text: str) -> Selector:
    # The parser library takes a tenth of a second to import, and the syntax tree a fifth of that: only programs with selectors pay for it.
    from pyjms.spi.selector.check import check
    from pyjms.spi.selector.compile import compile_condition
    from pyjms.spi.selector.headers import equalities_in
    from pyjms.spi.selector.nodes import Boolean, names_in
    from pyjms.spi.selector.parse import parse

    root: Node = Boolean(value=True, start=0, end=0)
    try:
        if text:
            root = parse(text)
            check(root, text)
        matches, fails = compile_condition(root)
    except RecursionError:
        # Far from the limit on nesting, but the caller's own calls have left too little of Python's stack.
        raise InvalidSelectorError("too little stack is left to compile the selector", text, 0) from None
    return Selector(text, matches, frozenset(names_in(root)), fails, root, equalities_in(root))


_cached = lru_cache(maxsize=_CACHE_SIZE)(_compile)


def is_same_text(one: str | None, other: str | None) -> bool:
    """Return whether two texts of valid selectors differ only in white space between their words."""
    return one == other or (one is not None and other is not None and _words(one) == _words(other))


def _words(text: str) -> list[str]:
    """Return a selector's texts, names, numbers and operators."""
    return _WORD.findall(text)
