"""Who changes what they come in by keeps a way back, unless they say that they want none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyjms_provider.management.errors import LockoutError
from pyjms_provider.management.scope import Scope
from pyjms_provider.management.service import Caller
from pyjms_provider.model.errors import InvalidAttributesError
from pyjms_provider.model.managed import ManagedObject
from pyjms_provider.model.security import AccessControl
from pyjms_provider.security.access import parse_rules, rules_to_data
from pyjms_provider.security.contracts import Principal
from pyjms_provider.serving.management_queues import MessageRequest
from tests.provider.management.world import Site

PASSWORD = "long enough"


def _rules(text: str) -> list[dict[str, object]]:
    return rules_to_data(parse_rules(text))


@dataclass
class Door:
    """What Ann, an operator, comes in by."""

    site: Site
    ann: Caller
    access: AccessControl
    users: ManagedObject
    port: ManagedObject
    folder: Path

    def change(self, managed: ManagedObject, *, force: bool = False, **changes: Any) -> None:
        self.site.management.change(self.ann, managed, changes, force=force)


@pytest.fixture
def door(site: Site, tmp_path: Path) -> Door:
    top = site.system.broker
    users = top.create_child(
        "authentication_provider",
        {"name": "users", "type": "user-file", "path": str(tmp_path / "users"), "argon2_memory_kib": 64},
    )
    for name in ("ann", "zoe"):
        users.create_child("user", {"name": name, "password": PASSWORD, "groups": ["admins", "staff"]})
    top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
    rules = _rules("allow group:admins all *")
    access = top.create_child("access_control", {"name": "access", "rules": rules})
    assert isinstance(access, AccessControl)
    top.create_child("access_control", {"name": "other", "rules": _rules("allow group:admins observe *")})
    chosen = {"authentication_providers": ["users"], "access_control": "access"}
    port = top.create_child("port", {"name": "http", "type": "http", **chosen})
    who = Principal(name="ann", groups=frozenset({"admins", "staff"}), provider="users")
    ann = Caller(principal=who, access=access.policy, port=port.id)
    return Door(site, ann, access, users, port, tmp_path)


@pytest.mark.parametrize(
    "rules",
    [
        "",
        "allow user:zoe all *",
        "deny user:ann administer managed\nallow group:admins all *",
        "allow group:admins administer *",  # who does not see the rules does not reach them
        "allow group:admins observe *\nallow group:admins administer queue",
    ],
)
def test_rules_that_shut_out_their_author_are_refused_and_can_be_forced(door: Door, rules: str) -> None:
    before = door.access.attribute_values(["rules"])
    with pytest.raises(LockoutError, match=r"by these rules 'ann' may not administer it.*force it") as told:
        door.change(door.access, rules=_rules(rules))
    assert "--force" in told.value.reason
    assert door.access.attribute_values(["rules"]) == before
    door.change(door.access, force=True, rules=_rules(rules))
    assert door.access.attribute_values(["rules"]) != before


def test_rules_by_default_are_none_and_shut_everybody_out(door: Door) -> None:
    with pytest.raises(LockoutError):
        door.change(door.access, rules=None)


def test_rules_that_leave_their_author_a_way_and_those_of_other_ports_are_changed(door: Door) -> None:
    door.change(door.access, rules=_rules("deny user:zoe all *\nallow user:ann administer,observe managed"))
    door.change(door.site.management.find(door.ann, "access_control", ("other",)), rules=[])
    with pytest.raises(InvalidAttributesError, match="effect"):
        door.change(door.access, rules=[{"effect": "perhaps", "who": "*"}])


def test_nobody_leaves_the_group_that_lets_them_in(door: Door) -> None:
    me, zoe = door.users.child("user", "ann"), door.users.child("user", "zoe")
    with pytest.raises(LockoutError, match="without those groups 'ann' may not"):
        door.change(me, groups=["staff"])
    assert "admins" in door.users.child("user", "ann").attribute_values(["groups"])["groups"]
    door.change(me, password="another good one")
    door.change(me, groups=["admins"])
    door.change(zoe, groups=[])
    door.change(me, force=True, groups=[])
    assert door.users.child("user", "ann").attribute_values(["groups"])["groups"] == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"authentication_providers": ["anonymous"]}, "would not ask 'users'"),
        ({"authentication_providers": None}, "would not ask 'users'"),
        ({"access_control": "other"}, "by the rules that it would name"),
        ({"access_control": None}, "by the rules that it would name"),
    ],
)
def test_a_port_goes_on_to_let_in_who_changes_it(door: Door, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(LockoutError, match=told):
        door.change(door.port, **changes)
    door.change(door.port, authentication_providers=["anonymous", "users"], max_connections=5)
    door.change(door.port, force=True, **changes)


@pytest.mark.parametrize(
    ("line", "told"), [(None, "cannot be read"), ("zoe", "you are not in the file"), ("ann", "your groups in the file")]
)
def test_a_provider_goes_on_to_know_who_changes_it(door: Door, line: str | None, told: str) -> None:
    path = door.folder / "next"
    if line is not None:
        known = (door.folder / "users").read_text().splitlines()
        chosen = next(each for each in known if each.startswith(line)).replace("admins", "nobodies")
        path.touch(mode=0o600)
        path.write_text(f"{chosen}\n")
    with pytest.raises(LockoutError, match=told):
        door.change(door.users, path=str(path))
    door.change(door.users, description="those of the file")


def test_a_message_and_a_request_say_that_it_is_wanted(door: Door) -> None:
    asked = {"action": "change", "category": "user", "names": ["users", "ann"], "attributes": {"groups": []}}
    with pytest.raises(LockoutError):
        MessageRequest(Scope(door.site.management, door.ann, ()), asked).run()
    MessageRequest(Scope(door.site.management, door.ann, ()), {**asked, "force": True}).run()
    assert door.users.child("user", "ann").attribute_values(["groups"])["groups"] == []
