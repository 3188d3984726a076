"""Answers are JSON in UTF-8 whatever a message holds, so that one message hides no queue."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from starlette.testclient import TestClient

import pyjms_provider.management.rest
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope
from pyjms_provider.management.rest.answers import JSONResponse
from tests.provider.helpers import make_envelope
from tests.provider.management.world import ROOT, Site, ok

HALF = 'half \ud800 "of a \\pair'
ORDERS = f"{ROOT}/queue/main/shop/orders"


@pytest.mark.parametrize("text", [HALF, "\udfff", "\\\ud800", "\ud83d\ude00", "\U0001f600", "é\u2028\0", "plain"])
def test_every_text_can_be_answered_and_is_read_as_it_was(text: str) -> None:
    read = json.loads(bytes(JSONResponse({text: [text]}).body).decode("utf-8"))
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # two halves make a whole
    assert read == {joined: [joined]}


def test_what_is_no_number_of_json_is_not_answered() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        JSONResponse({"n": float("nan")})


@pytest.mark.parametrize(
    "change",
    [
        {"body": HALF},
        {"correlation_id": HALF},
        {"jms_type": HALF},
        {"properties": MappingProxyType({"p": HALF})},
        {"body_kind": BodyKind.MAP, "body": MappingProxyType({HALF: HALF})},
        {"body_kind": BodyKind.STREAM, "body": (HALF,)},
        {"reply_to": Address(AddressKind.QUEUE, HALF)},
    ],
    ids="-".join,
)
def test_a_message_with_half_of_a_surrogate_pair_hides_no_others(
    site: Site, ann: TestClient, change: dict[str, Any]
) -> None:
    site.queue()
    site.publish("orders", "first")
    odd: Envelope = replace(make_envelope("x"), **change)
    site.host.embedded.virtual_host.route(odd, None, None)
    answer = ann.post(f"{ORDERS}/browse", json={})
    shown = ok(answer)["result"]["messages"]
    assert (len(shown), shown[0]["body"]["text"]) == (2, "first")
    assert json.dumps(HALF).strip('"') in answer.text
    assert len(ok(ann.post(f"{ORDERS}/explain", json={"selector": "JMSType = 'x'"}))["result"]) == 2
    wanted = {"message_ids": [each["id"] for each in shown], "with_bodies": True}
    assert len(ok(ann.post(f"{ROOT}/virtual_host/main/shop/find_messages", json=wanted))["result"]) == 2


def test_no_answer_of_rest_is_made_otherwise() -> None:
    folder = Path(pyjms_provider.management.rest.__file__).parent
    sources = {each.name: each.read_text() for each in folder.glob("*.py")}
    for name, source in sources.items():
        assert "starlette.responses import JSONResponse" not in source, name
