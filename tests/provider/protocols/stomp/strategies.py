"""Frames for property-based tests."""

from __future__ import annotations

from hypothesis import strategies as st

from pyjms_provider.protocols.stomp.frames import Frame, Version

VERSIONS = st.sampled_from(Version)
COMMANDS = st.sampled_from(["SEND", "MESSAGE", "ERROR", "ACK", "CREDIT"])
_TEXT = st.characters(exclude_characters="\0", exclude_categories=["Cs"])


def _header_text(version: Version, *, is_name: bool) -> st.SearchStrategy[str]:
    """Return texts that `version` can carry."""
    least = 1 if is_name else 0
    if version is Version.V1_0:
        excluded = "\0\n\r:" if is_name else "\0\n\r"
        plain = st.text(st.characters(exclude_characters=excluded, exclude_categories=["Cs"]), min_size=least)
        return plain.map(lambda text: text.strip(" \t")).filter(lambda text: len(text) >= least)
    return st.text(_TEXT, min_size=least)


@st.composite
def frames(draw: st.DrawFn, version: Version) -> Frame:
    """Draw frames that `version` can carry, some with a content-length, some without."""
    names, values = _header_text(version, is_name=True), _header_text(version, is_name=False)
    headers = draw(st.dictionaries(names, values, max_size=6))
    headers.pop("content-length", None)
    body = draw(st.binary(max_size=60))
    if b"\0" in body or draw(st.booleans()):
        headers["content-length"] = str(len(body))
    return Frame(draw(COMMANDS), headers, body)
