"""Bodies as XML, without document types, entities and references to elsewhere; it needs the extra `routing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = ["parse_xml"]


def parse_xml(text: str) -> Element | None:
    """Return the root of a document; None if it is not well formed, or has a document type: entities may be bombs."""
    try:
        root: Element = fromstring(text, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, UnicodeError):
        return None
    return root
