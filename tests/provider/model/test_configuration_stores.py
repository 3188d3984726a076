"""What each bundled configuration store does besides the contract: survive a loss of power, refuse what it cannot know."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyjms.spi.errors import InDoubtError
from pyjms_provider.model.configuration.json_file import EditedFileError, JsonConfigurationStore
from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    ForeignStoreError,
    NewerStoreError,
    StoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.sql.configuration import SqlConfigurationStore
from pyjms_provider.stores.testing.configuration_suite import ADMIN, BROKER, PORT, USERS, record


def test_its_name_tells_no_password() -> None:
    assert (
        SqlConfigurationStore("postgresql+psycopg://me:secret@db/x?sslkey=s").where
        == "postgresql+psycopg://me:***@db/x"
    )


# Power loss: whatever a file's write has got to, the file says the old or the new.


class PowerLossError(BaseException):
    """The machine stops here."""


@pytest.mark.parametrize("step", ["fsync", "replace", "fsync after"])
@pytest.mark.parametrize("of", [JsonConfigurationStore, TomlConfigurationStore])
def test_power_lost_in_mid_change_leaves_old_or_new(
    step: str, of: type[JsonConfigurationStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "conf"
    store = of(path)
    store.open("test")
    store.update([BROKER, PORT])
    calls = {"os.fsync": 0}

    def stop(*_: object) -> None:
        calls["os.fsync"] += 1
        if step != "fsync after" or calls["os.fsync"] == 2:
            raise PowerLossError

    with monkeypatch.context() as patched:
        patched.setattr("os.replace" if step == "replace" else "os.fsync", stop)
        patched.setattr(Path, "replace", stop if step == "replace" else Path.replace)
        patched.setattr(Path, "unlink", lambda *_, **__: None)  # a dead process removes nothing
        with pytest.raises(PowerLossError):
            store.update([USERS], [PORT.id])
    store.close()
    again = of(path)
    found = [each.name for each in again.open("test")]
    assert found == (["shop", "people"] if step == "fsync after" else ["shop", "stomp"])
    again.update([USERS, ADMIN])
    again.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["conf", "conf.lock"], "nothing is left over"


@pytest.mark.parametrize("of", [JsonConfigurationStore, TomlConfigurationStore])
def test_what_a_person_writes_meanwhile_is_not_written_over(of: type[JsonConfigurationStore], tmp_path: Path) -> None:
    path = tmp_path / "conf"
    store = of(path)
    store.open("test")
    store.update([BROKER, PORT])
    kept = path.read_text()
    edited = kept + "\n"
    path.write_text(edited)
    with pytest.raises(
        EditedFileError, match=r"somebody has edited .*conf since the broker read it; start the broker again"
    ):
        store.update([USERS])
    assert path.read_text() == edited
    path.write_text(kept)
    store.update([USERS])
    path.unlink()
    store.update([], [PORT.id])
    store.close()
    again = of(path)
    assert [each.name for each in again.open("test")] == ["shop", "people"]
    again.close()


def test_a_disk_that_is_full_changes_nothing(tmp_path: Path) -> None:
    full = False

    def write(path: Path, content: str) -> None:
        if full:
            raise OSError(28, "No space left on device")
        path.write_text(content, encoding="utf-8")

    store = JsonConfigurationStore(tmp_path / "a.json", write=write)
    store.open("test")
    store.update([BROKER])
    full = True
    with pytest.raises(StoreError, match=r"the configuration was not changed: .*No space left"):
        store.update([PORT])
    full = False
    store.update([USERS])
    store.close()
    again = JsonConfigurationStore(tmp_path / "a.json")
    assert list(again.open("test")) == [BROKER, USERS]
    again.close()


@pytest.mark.parametrize("faults", [["forcing"], ["forcing", "writing"], ["forcing", "forcing"]])
def test_a_change_in_a_file_that_could_not_be_forced_is_taken_back(tmp_path: Path, faults: list[str]) -> None:
    to_come: list[str] = []

    def write(path: Path, content: str) -> None:
        fault = to_come.pop(0) if to_come else ""
        if fault != "writing":
            path.write_text(content, encoding="utf-8")
        if fault:
            raise OSError(5, "Input/output error")

    store = JsonConfigurationStore(tmp_path / "a.json", write=write)
    store.open("test")
    store.update([BROKER])
    to_come += faults
    with pytest.raises(InDoubtError, match=r"the broker goes on without it: .*Input/output error"):
        store.update([PORT])
    store.update([USERS])
    store.close()
    again = JsonConfigurationStore(tmp_path / "a.json")
    assert list(again.open("test")) == [BROKER, USERS]
    again.close()


def test_what_an_editor_has_beside_the_file_is_left_alone(tmp_path: Path) -> None:
    """vim keeps in it what has not been saved: it is how work is had back after a crash."""
    (tmp_path / "a").mkdir()
    real, path = tmp_path / "a" / "real[1].toml", tmp_path / "broker.toml"
    path.symlink_to(real)
    theirs = [tmp_path / ".broker.toml.swp", tmp_path / "a" / ".real[1].toml.swp"]
    for each in theirs:
        each.write_text("unsaved")
    ours = tmp_path / "a" / ".real[1].toml.x7_ab2cd.pyjms-new"
    ours.write_text("half a conf")
    store = TomlConfigurationStore(path)
    store.open("b")
    store.close()
    assert [each.read_text() for each in theirs] == ["unsaved", "unsaved"]
    assert not ours.exists()


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    store = JsonConfigurationStore(tmp_path / "a.json")
    store.open("test")
    store.close()
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o600


# What is in the file may be anything.

ORPHAN = (
    '{"product": "pyjms configuration", "version": 1, "objects": [{"id": "12345678123456781234567812345678",'
    ' "category": "queue", "parent": "02345678123456781234567812345678", "attributes": {"name": "q"}}]}'
)


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        ("{", DamagedStoreError, "is no JSON"),
        ("[]", ForeignStoreError, "is no configuration of pyjms"),
        (
            '{"product": "pyjms configuration", "version": 2}',
            NewerStoreError,
            "has version 2, and this pyjms knows version 1",
        ),
        ('{"product": "pyjms configuration", "version": "1"}', DamagedStoreError, "'version' is a text, not a whole"),
        ('{"product": "pyjms configuration"}', DamagedStoreError, "'version' is missing"),
        ('{"product": "pyjms configuration", "version": 1}', DamagedStoreError, "objects"),
        (
            '{"product": "pyjms configuration", "version": 1, "objects": [{"id": "x"}]}',
            DamagedStoreError,
            "object 1 is not understood",
        ),
        (
            ORPHAN,
            DamagedStoreError,
            "queue 'q' has a parent that is not there",
        ),
    ],
)
def test_a_json_file_that_is_none_of_ours_is_refused(
    content: str, error: type[StoreError], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(error, match=says):
        JsonConfigurationStore(path).open("test")
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        ("a = ", DamagedStoreError, "is no TOML: .* line 1"),
        ("[broker]", ForeignStoreError, "it has no version; write version = 1"),
        ("version = 9", NewerStoreError, "has version 9"),
        (
            "version = 1\n[[port]]\nname = 'x'",
            DamagedStoreError,
            r"line 2: 'port' stands here without a table \[broker\]",
        ),
        ("version = 1\n[broker]\n[[prot]]", DamagedStoreError, "there is no category 'prot'; there are: .*port"),
        ("version = 1\nport = [1]\n[broker]", DamagedStoreError, r"port is a list of tables; write \[\[port\]\]"),
        ("version = 1\nport = 3\n[broker]", DamagedStoreError, r"port is a list of tables; write \[\[port\]\]"),
        ("version = 1\nbroker = 'x'", DamagedStoreError, r"broker is a table; write \[broker\]"),
        ("version = 1\n[broker]\nkept = 5", DamagedStoreError, "'kept' is a table that the broker writes; take it out"),
        (
            "version = 1\n[broker]\nkept = {created_ms = 'x'}",
            DamagedStoreError,
            "created_ms in a table 'kept' is not what",
        ),
        ("version = 1\n[broker]\nkept = {stopped = 'yes'}", DamagedStoreError, "stopped in a table 'kept' is not what"),
        (
            "version = 1\n[broker]\n[broker.kept]\nid = 'x'",
            DamagedStoreError,
            "the id 'x' .* is none; leave that table",
        ),
    ],
)
def test_a_toml_file_that_is_none_of_ours_is_refused(
    content: str, error: type[StoreError], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(content)
    with pytest.raises(error, match=says):
        TomlConfigurationStore(path).open("test")
    assert path.read_text() == content


ID = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"objects": 5}, "'objects' is a whole number, not a list"),
        ({"objects": None}, "'objects' is null, not a list"),
        ({"objects": {"a": 1}}, "'objects' is an object, not a list"),
        ({"objects": [[]]}, "object 1 is not understood: it is a list, not an object"),
        ({"id": 5}, "object 1 is not understood: 'id' is a whole number, not a text"),
        ({"id": "x"}, "object 1 is not understood: 'x' is no id: a UUID"),
        ({"parent": 1.5}, "'parent' is a number, not a text"),
        ({"category": ["queue"]}, "'category' is a list, not a text"),
        ({"attributes": "x"}, "'attributes' is a text, not an object"),
        ({"attributes": [["name", "x"]]}, "'attributes' is a list, not an object"),
        ({"stopped": "no"}, "'stopped' is a text, not true or false"),
        ({"created_ms": "early"}, "'created_ms' is a text, not a whole number"),
        ({"updated_by": True}, "'updated_by' is true or false, not a text"),
        ({"attributes": {"name": "half \ud800"}}, "is no JSON in UTF-8: .*surrogates not allowed"),
    ],
)
def test_json_of_a_wrong_shape_says_what_is_wrong(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    found = {"id": ID, "category": "queue", "attributes": {"name": "x"}, **changes}
    whole = {"product": "pyjms configuration", "version": 1, "objects": [found]}
    path.write_text(json.dumps({**whole, **{name: found[name] for name in ("objects",) if name in found}}))
    with pytest.raises(DamagedStoreError, match=f"a.json.*{says}.*; correct it, or put a backup in its place"):
        JsonConfigurationStore(path).open("test")


@pytest.mark.parametrize("missing", ["objects", "id", "category", "attributes"])
def test_json_without_what_there_must_be_says_what_is_missing(missing: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    found = {"id": ID, "category": "queue", "attributes": {"name": "x"}}
    whole: dict[str, Any] = {"product": "pyjms configuration", "version": 1, "objects": [found]}
    (whole if missing == "objects" else found).pop(missing)
    path.write_text(json.dumps(whole))
    with pytest.raises(DamagedStoreError, match=f"'{missing}' is missing; correct it"):
        JsonConfigurationStore(path).open("test")


@pytest.mark.parametrize("depth", [200, 900, 50_000])
@pytest.mark.parametrize("where", ["whole", "objects", "attributes"])
def test_json_that_is_nested_deeply_is_refused(where: str, depth: int, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    deep = '{"a":' * depth + "1" + "}" * depth
    found = f'{{"id": "{ID}", "category": "queue", "attributes": {{"name": "x", "context": {deep}}}}}'
    objects = deep if where == "objects" else f"[{found}]"
    text = f'{{"product": "pyjms configuration", "version": 1, "objects": {objects}}}'
    path.write_text(deep if where == "whole" else text)
    with pytest.raises(StoreError, match=r"nested|is no configuration of pyjms|is an object, not a list"):
        JsonConfigurationStore(path).open("test")


TWINS = """\
version = 1
[broker]
name = "shop"
[[port]]
name = "stomp"
kept = {id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
[[port]]
name = "SECOND"
kept = {id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
"""


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("stomp", "there is a port 'stomp' already, at broker.toml, line 4, and another one at broker.toml, line 7"),
        ("http", "the port 'http' at broker.toml, line 7 has the id of the port 'stomp' at broker.toml, line 4"),
    ],
)
def test_two_objects_of_one_name_or_id_are_refused(second: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(TWINS.replace("SECOND", second))
    store = TomlConfigurationStore(path)
    with pytest.raises(DamagedStoreError, match=told):
        store.open("test")
    assert len(store.read()) == 3  # for who tells all that is wrong with it
    path.write_text(TWINS.partition('[[port]]\nname = "SECOND"')[0])
    assert len(store.open("test")) == 2  # and the file is not held
    store.close()


def test_two_objects_of_one_name_in_json_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    store = JsonConfigurationStore(path)
    store.open("test")
    store.update([BROKER, PORT])
    store.close()
    kept = json.loads(path.read_text())
    kept["objects"].append({**kept["objects"][-1], "id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"})
    path.write_text(json.dumps(kept))
    with pytest.raises(
        DamagedStoreError, match=r"already, at host\.json, object 2, and another one at host\.json, object 3"
    ):
        store.open("test")


@pytest.mark.parametrize("of", [JsonConfigurationStore, TomlConfigurationStore])
def test_files_that_cannot_be_read_are_refused(of: type[JsonConfigurationStore], tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(UnusableStoreError, match="cannot be read"):
        of(tmp_path / "directory").open("test")
    with pytest.raises(UnusableStoreError, match=r"Its directory must exist"):
        of(tmp_path / "none" / "file").open("test")
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(DamagedStoreError, match="is no text in UTF-8"):
        of(tmp_path / "latin").open("test")


WRITTEN = """\
# The shop's broker.
version = 1

[broker]
name = "shop"  # as on the door

# Where clients come in.
[[port]]
name = "stomp"
type = "stomp"
port = "${pyjms.port}"  # from the environment

[[port]]
name = "http"

# Who may come in.
[[authentication_provider]]
name = "people"
type = "file"

[[authentication_provider.user]]
name = "admin"
password = "plain"
"""


def test_comments_and_order_stay_when_something_changes(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(WRITTEN)
    store = TomlConfigurationStore(path)
    records = {each.name: each for each in store.open("test")}
    assert {each.name: each.source for each in records.values()} == {
        "shop": "broker.toml, line 4",
        "stomp": "broker.toml, line 8",
        "people": "broker.toml, line 17",
        "admin": "broker.toml, line 21",
        "http": "broker.toml, line 13",
    }
    assert records["admin"].parent == records["people"].id
    changed = {**records["stomp"].attributes, "port": 61613}
    store.update([replace(records["stomp"], attributes=changed)])
    assert path.read_text() == WRITTEN.replace('"${pyjms.port}"', "61613")
    store.update([record("tls", "port", records["shop"], port=1)], [records["http"].id])
    store.update([record("two", "user", records["people"])])
    store.close()
    again = TomlConfigurationStore(path)
    names = [each.name for each in again.open("test")]
    assert sorted(names) == ["admin", "people", "shop", "stomp", "tls", "two"]
    again.close()
    text = path.read_text()
    for comment in ("# The shop's broker.", "# as on the door", "# Where clients come in.", "# from the environment"):
        assert comment in text
    assert '# Who may come in.\n[[authentication_provider]]\nname = "people"' in text
    assert text.index('name = "tls"') < text.index("# Who may come in.")


COMMENTED = """\
version = 1

[broker]
name = "shop"

# What they may do.
[[access_control]]
name = "access"
rules = [
    # Operators first.
    { effect = "allow", who = "group:operators" },  # all of it
    # Mallory has had her chance.
    { effect = "deny", who = "user:mallory" },
    # The others send.
    { effect = "allow", who = "*", operations = ["write"] }
]

# Where clients come in.
[[port]]
name = "stomp"
type = "stomp"

# Where operators come in.
[[port]]
name = "http"
type = "http"
"""


def test_what_the_broker_writes_leaves_comments_with_what_they_tell_of(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(COMMENTED)
    store = TomlConfigurationStore(path)
    records = {each.name: each for each in store.open("test")}
    access = records["access"]
    rules = list(access.attributes["rules"])
    rules[1:2] = [{"effect": "allow", "who": "group:staff", "operations": ["browse"]}]
    rules.append({"effect": "deny", "who": "*"})
    store.update([replace(access, attributes={**access.attributes, "rules": rules}, updated_by="ann")])
    expected = COMMENTED.replace(
        """\
    # Mallory has had her chance.
    { effect = "deny", who = "user:mallory" },
""",
        """\
    {effect = "allow", who = "group:staff", operations = ["browse"]},
""",
    ).replace('["write"] }\n]\n', '["write"] },\n    {effect = "deny", who = "*"},\n]\nkept = {updated_by = "ann"}\n')
    assert path.read_text() == expected
    store.update([], [records["stomp"].id])
    without = expected.replace('# Where clients come in.\n[[port]]\nname = "stomp"\ntype = "stomp"\n\n', "")
    assert path.read_text() == without
    operators = '# Where operators come in.\n[[port]]\nname = "http"'
    provider = record("people", "authentication_provider", records["shop"])
    store.update([record("second", "access_control", records["shop"]), provider, record("ann", "user", provider)])
    assert operators in path.read_text()
    store.update([], [access.id])
    store.close()
    text = path.read_text()
    assert "What they may do" not in text
    assert operators in text
    again = TomlConfigurationStore(path)
    assert sorted(each.name for each in again.open("test")) == ["ann", "http", "people", "second", "shop"]
    again.close()


@pytest.mark.parametrize(
    "written",
    [
        '[{ who = "*" }, { who = "x" }]',
        '[\n  # one\n  { who = "*" }, { who = "x" },\n]',
        "[]",
        '[ # odd\n{ who = "*" }\n, { who = "x" }]',
    ],
)
def test_a_list_in_any_layout_can_be_changed(tmp_path: Path, written: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(f'version = 1\n[broker]\nname = "s"\n[[access_control]]\nname = "a"\nrules = {written}\n# end\n')
    store = TomlConfigurationStore(path)
    access = next(each for each in store.open("test") if each.name == "a")
    rules = [{"who": "user:" + "x" * 40}, *access.attributes["rules"], {"who": "a#b", "operations": ["read", "write"]}]
    store.update([replace(access, attributes={"name": "a", "rules": rules})])
    store.close()
    again = TomlConfigurationStore(path)
    assert next(each for each in again.open("test") if each.name == "a").attributes["rules"] == rules
    again.close()
    assert path.read_text().endswith("# end\n")


def test_inline_lists_of_objects_can_be_added_to(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('version = 1\nport = [{name = "a"}]\n[broker]\nname = "shop"\n')
    store = TomlConfigurationStore(path)
    broker = store.open("test")[0]
    store.update([record("b", "port", broker, limits={"x": 1})])
    store.close()
    again = TomlConfigurationStore(path)
    assert [each.name for each in again.open("test")] == ["shop", "a", "b"]
    again.close()
