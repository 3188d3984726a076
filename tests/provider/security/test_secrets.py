"""Secure attributes are encrypted with keys that only the broker can read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms_provider.security.private_files import PrivateFileError
from pyjms_provider.security.secrets import SecretBox, SecretError

BOX = SecretBox((b"k" * 32,))


@pytest.mark.realises("BJ-ATT-3")
@given(st.text(st.characters(exclude_categories=())), st.text())
def test_what_is_encrypted_can_be_decrypted_in_its_context_only(text: str, context: str) -> None:
    sealed = BOX.encrypt(text, context=context)
    assert BOX.decrypt(sealed, context=context) == text
    with pytest.raises(SecretError, match="belongs to another object"):
        BOX.decrypt(sealed, context=context + "x")


def test_the_key_file_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    sealed = SecretBox.open(path).encrypt("tiger")
    assert path.stat().st_mode & 0o777 == 0o600
    assert SecretBox.open(str(path)).decrypt(sealed) == "tiger"
    assert [file.name for file in tmp_path.iterdir()] == ["keys"]


def test_the_same_text_never_looks_the_same() -> None:
    assert BOX.encrypt("tiger") != BOX.encrypt("tiger")
    assert "tiger" not in BOX.encrypt("tiger")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_keys_that_others_may_touch_are_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys"
    SecretBox.open(path)
    path.chmod(mode)
    with pytest.raises(PrivateFileError, match=f"mode {mode:o}.*chmod 600"):
        SecretBox.open(path)


def test_a_rotated_key_still_decrypts_what_is_old(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    old = SecretBox.open(path)
    sealed = old.encrypt("tiger")
    new = SecretBox.rotate(path)
    assert new.decrypt(sealed) == "tiger"
    assert old.is_current(sealed)
    assert not new.is_current(sealed)
    assert new.is_current(new.encrypt("tiger"))
    with pytest.raises(SecretError, match="not in the key file"):
        old.decrypt(new.encrypt("tiger"))


def test_every_altered_character_is_noticed() -> None:
    sealed = BOX.encrypt("tiger", context="broker/port/stomp/password")
    head = len("pyjms-secret:1:")
    for place in range(head, len(sealed)):
        for other in "A0=:*":
            altered = sealed[:place] + other + sealed[place + 1 :]
            if altered != sealed:
                with pytest.raises(SecretError):
                    BOX.decrypt(altered, context="broker/port/stomp/password")


@pytest.mark.parametrize("text", ["", "tiger", "pyjms-secret:1:", "pyjms-secret:1:abc", "pyjms-secret:2:x:y"])
def test_what_was_never_encrypted_is_refused(text: str) -> None:
    with pytest.raises(SecretError):
        BOX.decrypt(text)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "holds no key"),
        ("# nothing\n\n", "holds no key"),
        ("# a\nAAAA\n", "line 2: not a key"),
        ("né!\n", "line 1"),
    ],
)
def test_a_key_file_without_keys_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "keys"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(SecretError, match=complaint):
        SecretBox.open(path)


def test_a_key_file_that_cannot_be_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(PrivateFileError, match=r"no/keys: cannot be made: No such file"):
        SecretBox.open(tmp_path / "no" / "keys")
    (tmp_path / "binary").write_bytes(os.urandom(8) + b"\xff")
    (tmp_path / "binary").chmod(0o600)
    with pytest.raises(PrivateFileError, match="not a text"):
        SecretBox.open(tmp_path / "binary")
    (tmp_path / "long").write_bytes(b"#" * 100_000)
    (tmp_path / "long").chmod(0o600)
    with pytest.raises(PrivateFileError, match="more than 65536 bytes"):
        SecretBox.open(tmp_path / "long")


def test_of_two_that_make_the_key_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys"
    first = SecretBox.open(path)
    # The second looked before the first had made it.
    monkeypatch.setattr(Path, "exists", lambda self: False)
    assert SecretBox.open(path).decrypt(first.encrypt("tiger")) == "tiger"


def test_the_keys_are_never_shown() -> None:
    assert "kkkk" not in repr(BOX)
    with pytest.raises(ValueError, match="32 bytes"):
        SecretBox((b"short",))
