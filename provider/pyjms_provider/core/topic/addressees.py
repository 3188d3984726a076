"""The subscriptions of a topic as a published message meets them: those that may want it are found by the values that their selectors ask for.

Where many selectors ask for values of the same identifiers, as ``account = '17'`` does, those alone are evaluated that ask for the message's own
(`pyjms.spi.selector.equalities`). Immutable, so that publishing needs no lock.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from pyjms.spi.selector.equalities import UNKNOWN_KEY, key_of_literals, key_of_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.topic.subscription import Subscription

_MANY: Final = 8  # selectors of one kind that are evaluated one by one

_Group: TypeAlias = tuple["Selector | None", tuple["Subscription", ...]]
_Numbered: TypeAlias = tuple[int, _Group]
_number = itemgetter(0)


class Addressees:
    """The subscriptions of one topic, grouped by selector, at one time."""

    __slots__ = ("_alone", "_by_names", "everybody", "groups")

    def __init__(self, groups: Iterable[tuple[Subscription, ...]] = ()) -> None:
        """`groups`: those of one selector each."""
        self.groups: tuple[_Group, ...] = tuple((each[0].selector, each) for each in groups if each)
        """Selectors, and who has them."""
        has_selectors = any(selector is not None for selector, _ in self.groups)
        self.everybody = None if has_selectors else tuple(group for _, group in self.groups)
        """All of them, if none has a selector; else None."""
        by_names: dict[tuple[str, ...], list[tuple[int, _Numbered]]] = {}
        alone: list[_Numbered] = []
        for numbered in enumerate(self.groups):
            selector = numbered[1][0]
            equalities = () if selector is None else selector.equalities
            if equalities:
                names = tuple(name for name, _ in equalities)
                by_names.setdefault(names, []).append((key_of_literals(equalities), numbered))
            else:
                alone.append(numbered)
        self._by_names: list[tuple[tuple[str, ...], dict[int, list[_Numbered]]]] = []
        """By the names of identifiers: by key, the groups whose selectors only messages with that key can match."""
        for names, found in by_names.items():
            if len(found) <= _MANY:
                alone += [numbered for _, numbered in found]
            else:
                by_key: dict[int, list[_Numbered]] = {}
                for key, numbered in found:
                    by_key.setdefault(key, []).append(numbered)
                self._by_names.append((names, by_key))
        self._alone = sorted(alone, key=_number)

    def wanting(self, envelope: Envelope) -> Iterator[tuple[Subscription, ...]]:
        """Yield the groups whose selectors the message satisfies, in their order. Raises `NotInMemoryError`."""
        candidates = self._alone
        if self._by_names:
            candidates = sorted([*candidates, *self._found(envelope)], key=_number)
        for _, (selector, group) in candidates:
            if selector is None or selector.matches(envelope):
                yield group

    def _found(self, envelope: Envelope) -> Iterator[_Numbered]:
        for names, by_key in self._by_names:
            key = key_of_message(envelope, names)
            if key != UNKNOWN_KEY:
                yield from by_key.get(key, ())
            else:
                for found in by_key.values():
                    yield from found
