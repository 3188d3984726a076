from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms_tck.profile import Profile, ProfileError, load_profile

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "from pyjms_tck.profile import Profile\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "profile.py"
    path.write_text(HEAD + text, "utf-8")
    return path


def test_without_a_file_everything_has_its_default() -> None:
    profile = load_profile(None)
    assert type(profile) is Profile
    assert profile.create_queue("orders") == "orders"
    assert profile.create_topic("news") == "news"
    profile.delete_queue("orders")
    profile.delete_topic("news")
    assert not profile.can_restart
    with pytest.raises(NotImplementedError, match="implement restart_broker"):
        profile.restart_broker()


def test_a_file_replaces_what_it_names(tmp_path: Path) -> None:
    profile = load_profile(
        write(
            tmp_path,
            "class Mine(Profile):\n    user_name = 'guest'\n    something_ms = 5\n"
            "    def create_queue(self, name): return f'q.{name}'\n    def restart_broker(self): pass\n",
        )
    )
    assert (profile.user_name, profile.password, profile.something_ms) == ("guest", None, 5)
    assert profile.create_queue("orders") == "q.orders"
    assert profile.can_restart


def test_the_last_class_of_a_line_is_the_profile(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, "class Base(Profile): parallel = 9\nclass Mine(Base): limit_s = 1\n"))
    assert (profile.parallel, profile.limit_s) == (9, 1)


def test_a_profile_may_import_what_stands_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_the_profile.py").write_text("TITLE = 'mine'\n", "utf-8")
    profile = load_profile(
        write(tmp_path, "import beside_the_profile\nclass Mine(Profile): title = beside_the_profile.TITLE\n")
    )
    assert profile.title == "mine"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must have one subclass of pyjms_tck.profile.Profile; it has none"),
        ("class A(Profile): pass\nclass B(Profile): pass\n", "it has A, B"),
        ("1 / 0", "cannot be loaded: ZeroDivisionError"),
        ("import no_such_module", "cannot be loaded: ModuleNotFoundError"),
        ("(", "cannot be loaded: SyntaxError"),
    ],
)
def test_a_file_that_is_no_profile_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ProfileError, match=told):
        load_profile(write(tmp_path, text))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("unsupportd = {}", "has no unsupportd; is unsupported meant"),
        ("titel = 'Acme MQ'", "has no titel; is title meant"),
        ("def restart_brokr(self): ...", "has no restart_brokr; is restart_broker meant"),
        ("unsupported = {'XAA': ''}", "'XAA', which is no feature .*; is XA meant"),
        ("unsupported = {'topics': ''}", "'topics', which is no feature .*; is TOPICS meant"),
        ("unsupported = {'99.1': ''}", "'99.1', which is no feature"),
        ("unsupported = {'3.4.1-zz': ''}", "; is 3.4.1-. meant"),
    ],
)
def test_what_nobody_would_heed_is_told(tmp_path: Path, body: str, told: str) -> None:
    """A requirement that was to be waived was judged, and nothing said why."""
    with pytest.raises(ProfileError, match=told):
        load_profile(write(tmp_path, f"class A(Profile):\n    {body}\n"))


def test_a_profile_may_have_what_is_its_own(tmp_path: Path) -> None:
    body = "unsupported = {'XA': '', '3.4.1-a': '', '4': '', 'poll-does-not-wait': ''}\n    _titel = queues_made = 1"
    assert len(load_profile(write(tmp_path, f"class A(Profile):\n    {body}\n")).unsupported) == 4


@pytest.mark.parametrize("name", ["missing.py", "profile.txt", "."])
def test_a_path_that_is_no_python_file_is_told(tmp_path: Path, name: str) -> None:
    if name.endswith("txt"):
        (tmp_path / name).write_text(HEAD, "utf-8")
    with pytest.raises(ProfileError, match="is no Python file"):
        load_profile(tmp_path / name)
