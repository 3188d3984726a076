from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.messages.java_text import decode_modified_utf8, encode_modified_utf8


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", ""),
        ("abc", "616263"),
        ("\0", "c080"),
        ("a\0b", "61c08062"),
        ("é", "c3a9"),
        ("€", "e282ac"),
        ("\U0001f600", "eda0bdedb880"),
        ("\ud800", "eda080"),
        ("\udc00\ud800", "edb080eda080"),
        ("\uffff", "efbfbf"),
    ],
)
def test_texts_and_their_bytes(text: str, data: str) -> None:
    assert encode_modified_utf8(text).hex() == data
    assert decode_modified_utf8(bytes.fromhex(data)) == text


@given(st.text(st.characters()))
def test_any_text_comes_back(text: str) -> None:
    pairs = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # as Java sees it
    assert decode_modified_utf8(encode_modified_utf8(text)) == pairs


@pytest.mark.parametrize(("data", "text"), [("00", "\0"), ("c181", "A"), ("e08080", "\0"), ("e0818141", "AA")])
def test_longer_forms_are_taken_as_java_takes_them(data: str, text: str) -> None:
    assert decode_modified_utf8(bytes.fromhex(data)) == text


@pytest.mark.parametrize("data", ["80", "c3", "c341", "e282", "e28241", "f09f9880", "ff", "61c0", "c1c1"])
def test_other_bytes_are_no_text(data: str) -> None:
    with pytest.raises(ValueError, match=r"modified UTF-8"):
        decode_modified_utf8(bytes.fromhex(data))


@given(st.binary())
def test_any_bytes_are_judged(data: bytes) -> None:
    try:
        text = decode_modified_utf8(data)
    except ValueError:
        return
    assert decode_modified_utf8(encode_modified_utf8(text)) == text
