"""Bodies as XML, without document types, entities and references to elsewhere; it needs the extra `routing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

DEPTH_MAX: Final = 200
"""What is nested more deeply is no message that somebody routes; and a path with `//` would look at each element once a level."""


def parse_xml(text: str) -> Element | None:
    """Return the root of a document; None if it is not well formed, nested too deeply, or has a document type: entities may be bombs."""
    try:
        root: Element = fromstring(text, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, UnicodeError):
        return None
    level, depth = [root], 1
    while level := [child for each in level for child in each]:
        depth += 1
        if depth > DEPTH_MAX:
            return None
    return root
