"""Java's modified UTF-8, in which `BytesMessage` writes texts (java.io.DataOutput, JMS 1.1 §3.11).

NUL takes two bytes, and a character outside the basic plane is written as its two surrogates, three bytes each.
"""

from __future__ import annotations

import re

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def encode(text: str) -> bytes:
    """Return the bytes of `text`, without the length that `DataOutput.writeUTF` puts in front."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    pairs = _ASTRAL.sub(_to_pair, text)
    return pairs.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def decode(data: bytes) -> str:
    """Return the text of `data`. Takes longer forms than needed, as Java does; raises ``ValueError`` for other bytes."""
    if data.isascii():
        return data.decode("ascii")
    if max(data) >= 0xF0:
        raise ValueError("a byte above 0xEF has no place in modified UTF-8")
    try:
        text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = _decode_leniently(data)
    return _join_pairs(text) if _SURROGATES.search(text) else text


def _to_pair(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 | offset >> 10) + chr(0xDC00 | offset & 0x3FF)


def _join_pairs(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _decode_leniently(data: bytes) -> str:
    """Decode byte by byte as DataInputStream.readUTF does, which takes overlong forms."""
    chars: list[str] = []
    position = 0
    while position < len(data):
        lead = data[position]
        size = 1 if lead < 0x80 else 2 if lead >> 5 == 0b110 else 3 if lead >> 4 == 0b1110 else 0
        rest = data[position + 1 : position + size]
        if size == 0 or len(rest) != size - 1 or any(byte >> 6 != 0b10 for byte in rest):
            raise ValueError(f"malformed modified UTF-8 at byte {position}")
        code = lead if size == 1 else lead & (0x3F >> (size - 1))
        for byte in rest:
            code = code << 6 | byte & 0x3F
        chars.append(chr(code))
        position += size
    return "".join(chars)
