from __future__ import annotations

import sys
from unicodedata import category

import pytest

from pyjms.messages.base import check_property_name
from pyjms.spi.selector import compile_selector
from pyjms.spi.selector.lexical import RESERVED_WORDS, first_bad_character, is_identifier, is_reserved
from tests.pyjms.spi.selector.support import envelope, error_of

GOOD = ["a", "_", "$", "a1", "été", "名前", "€uro", "a‿b", "Ⅷ", "a\u0301", "a\u0093", "a\0b", "a\u200bb", "𝒳", "ĳ"]  # noqa: RUF001
BAD = [
    ("1a", 0),
    ("a-b", 1),
    ("a.b", 1),
    ("\u0301a", 0),
    ("\0a", 0),
    ("a\u00a0", 1),
    ("a²", 1),
    ("a\x1cb", 1),
    ("a\n", 1),
]


@pytest.mark.parametrize("name", GOOD)
def test_java_identifiers_are_identifiers(name: str) -> None:
    assert first_bad_character(name) is None
    assert is_identifier(name)
    assert compile_selector(f"{name} = 1").matches(envelope({name: 1}))


@pytest.mark.parametrize(("name", "index"), BAD)
def test_others_are_not_and_the_character_is_named(name: str, index: int) -> None:
    assert first_bad_character(name) == index
    assert not is_identifier(name)


def test_nothing_is_no_identifier() -> None:
    assert not is_identifier("")


@pytest.mark.parametrize("word", sorted(RESERVED_WORDS))
def test_reserved_words_are_reserved_in_any_case(word: str) -> None:
    for spelled in (word, word.lower(), word.title(), word.swapcase()):
        assert is_reserved(spelled)
        assert not is_identifier(spelled)
        assert error_of(f"{spelled} = 1").selector
        assert compile_selector(f"{spelled}_ = 1 AND _{spelled} = 2").matches(
            envelope({f"{spelled}_": 1, f"_{spelled}": 2})
        )


@pytest.mark.parametrize("word", ["\u0131s", "l\u0131ke", "e\u017fcape", "I\u017f"])
def test_letters_that_only_unicode_takes_for_those_of_a_reserved_word_make_a_name(word: str) -> None:
    assert word.upper() in RESERVED_WORDS
    assert compile_selector(f"{word} = 1").matches(envelope({word: 1}))


def test_property_names_and_identifiers_are_the_same() -> None:
    # One character of each category, and the edges of the control characters.
    samples = {category(chr(number)): chr(number) for number in range(sys.maxunicode, -1, -7)}
    for character in {*samples.values(), *map(chr, range(0xA1))} - {"\ud800"}:
        for name in (character, f"a{character}"):
            try:
                check_property_name(name)
            except Exception:
                assert not is_identifier(name), repr(name)
            else:
                assert is_identifier(name), repr(name)
