"""No secret gets into the audit log, whatever attribute it is given for, and in whatever form."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import declarations
from tests.provider.management.world import ROOT, AuditTrail, Site, ok

KINDS: Final = [
    (category, kind)
    for category, shape in tree.TREE.items()
    if not shape.is_observed and category not in {tree.ROOT, "broker"}
    for kind in tree.types_of(category)
]
PARENTS: Final = {
    "virtual_host": ("main",),
    "queue": ("main", "shop"),
    "route": ("main", "shop"),
    "receiver": ("main", "shop"),
    "workflow_store": ("main", "shop"),
    "user": ("users",),
}
SECRET: Final = "Ov3rh34rd"
MISSPELT: Final = ("pasword", "key", "login", "colour")
LIKE_SECRETS: Final = ("password", "passwd", "db.pwd", "client_secret", "api-key", "Authorization", "refresh_token")

fillers = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters='"\\'), max_size=12)
pads = st.integers(4_050, 4_110) | st.integers(0, 3)


@st.composite
def in_any_form(draw: st.DrawFn) -> Any:
    """Return a value that has the secret in it at any place: for an attribute that is a secret."""
    found: Any = draw(fillers) + SECRET + draw(fillers)
    for _ in range(draw(st.integers(0, 3))):
        found = draw(st.sampled_from([[found], {"a": found}, {found if isinstance(found, str) else "b": 1}]))
    return json.dumps(found) if draw(st.booleans()) else found


@st.composite
def in_anything(draw: st.DrawFn) -> Any:
    """Return a value that shows that it has a secret, by a name or by its form: for an attribute that is none."""
    name = draw(st.sampled_from(LIKE_SECRETS))
    begin = "x" * draw(pads)
    url = f"{begin} db://{draw(st.sampled_from(['', 'ann']))}:{draw(fillers)}{SECRET}{draw(fillers)}@there/db"
    texts = [
        url,
        f"{begin} sqlite://?{name}={SECRET}&a=1",
        f"{begin}$argon2id$v=19${SECRET}",
        f"pyjms-secret:1:{SECRET}",
    ]
    found: Any = draw(
        st.sampled_from([*texts, {name: SECRET}, {name: [{"a": SECRET}]}, {"a": {name: SECRET}, "b": begin}])
    )
    if draw(st.booleans()):
        found = draw(st.sampled_from([[found], {"a": found}]))
    return json.dumps(found) if draw(st.booleans()) else found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Any:
    site = Site()
    path = str(tmp_path_factory.mktemp("users") / "users")
    site.system.broker.create_child("authentication_provider", {"name": "users", "type": "user-file", "path": path})
    yield site
    site.close()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_secret_is_in_no_record(world: Site, trail: AuditTrail, data: st.DataObject) -> None:
    """Bob may do none of it, so that nothing is made, and all that he asks for is written down."""
    category, kind = data.draw(st.sampled_from(KINDS))
    known = declarations(tree.class_of(category, kind or None)[1].attributes_class)
    called = data.draw(st.sampled_from(["it", {"password": SECRET}]))  # a name that is a text is in all addresses
    body: dict[str, Any] = {"name": called, **({"type": kind} if kind else {})}
    for name in data.draw(
        st.lists(st.sampled_from([*sorted(set(known) - {"name", "type"}), *MISSPELT]), min_size=1, max_size=4)
    ):
        is_secret = name not in known or known[name].is_secure
        body[name] = data.draw(in_any_form() if is_secret else in_anything())
    trail.records.clear()
    with pytest.raises(AccessDeniedError):
        world.management.create(world.caller("bob"), category, PARENTS.get(category, ()), body)
    [record] = trail.records
    assert SECRET not in json.dumps(record)


def test_what_a_message_holds_is_in_no_record(site: Site, ann: TestClient, trail: AuditTrail) -> None:
    site.queue()
    message = {"text": SECRET, "properties": {"a": {"type": "string", "value": SECRET}}}
    for body in ({"message": message}, {"message": {"text": SECRET}}, {"massage": SECRET}):
        ann.post(f"{ROOT}/queue/main/shop/orders/publish", json=body)
    ok(ann.post(f"{ROOT}/queue/main/shop/orders/move_messages", json={"target": "later", "selector": "a = 'b'"}))
    assert [each["operation"] for each in trail.records] == ["publish", "publish", "publish", "move_messages"]
    assert SECRET not in json.dumps(trail.records)
    assert trail.records[3]["after"] == {"target": "later", "selector": "a = 'b'"}
