"""The guide for authors of stores names what there is."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from pyjms_provider.stores import errors
from pyjms_provider.stores.contract import StoreRequest
from tests.docs.log_store import log_store
from tests.pyjms.spi.folder import GUIDE

TEXT = (GUIDE / "stores.md").read_text("utf-8")


def _table(heading: str) -> set[str]:
    lines = TEXT.partition(f"| {heading} |")[2].splitlines()[2:]
    return set(re.findall(r"^\| `(\w+)`", "\n".join(lines[: lines.index("")]), re.MULTILINE))


def test_the_guide_names_all_fields_of_a_request_and_the_errors_of_stores() -> None:
    assert _table("field") == {each.name for each in fields(StoreRequest)}
    # Raised by the broker, by the codec, and by the tables of a cluster.
    own = {"AmbiguousStoreError", "StorePluginError", "CodecError", "PagingFullError"}
    own |= {"TakenNameError", "UncertainWriteError", "WrongClusterError"}
    assert _table("error") == {*errors.__all__, "UrlError"} - own


@pytest.mark.parametrize("shown", re.findall(r":pyobject: (\S+)", TEXT))
def test_what_is_shown_exists(shown: str) -> None:
    found = log_store
    for name in shown.split("."):
        found = getattr(found, name)
