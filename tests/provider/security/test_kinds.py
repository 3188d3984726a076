"""The table of the kinds of authentication: what the model and the command line make of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyjms.spi.errors import MissingProviderError, ProviderError
from pyjms.testing import VirtualClock
from pyjms_provider.security.kinds import AUTHENTICATION_KINDS, SettingError
from pyjms_provider.security.private_files import PrivateFileError
from pyjms_provider.security.settings import (
    AnonymousSettings,
    CertificateSettings,
    IntrospectionSettings,
    JwtSettings,
    UserFileSettings,
)
from pyjms_provider.security.user_file import UserFile
from tests.provider.security.helpers import GOOD, password

CLOCK = VirtualClock()


def test_every_attribute_has_a_plain_type_a_text_and_a_default_of_that_type() -> None:
    for kind in AUTHENTICATION_KINDS.values():
        for attribute in kind.attributes:
            assert attribute.type in {str, int, bool, tuple[str, ...]}
            assert attribute.text.endswith(".")
            if not attribute.is_mandatory:
                plain = tuple if attribute.type == tuple[str, ...] else attribute.type
                assert type(attribute.default) is plain
                assert not attribute.choices or attribute.default in attribute.choices


def test_secrets_are_declared_as_such_and_have_no_default() -> None:
    secure = [(k.name, a.name) for k in AUTHENTICATION_KINDS.values() for a in k.attributes if a.is_secure]
    assert secure == [("introspection", "client_secret")]
    assert all(a.is_mandatory for k in AUTHENTICATION_KINDS.values() for a in k.attributes if a.is_secure)


def test_each_kind_makes_an_authenticator_that_knows_its_name(tmp_path: Path) -> None:
    UserFile(tmp_path / "users").add("alice", GOOD)
    settings = {
        "user-file": UserFileSettings(path=str(tmp_path / "users")),
        "certificate": CertificateSettings(),
        "jwt": JwtSettings(issuer="i", audience="a", keys_file="f"),
        "introspection": IntrospectionSettings(url="https://x/", client_id="c", client_secret="s"),
        "anonymous": AnonymousSettings(),
    }
    assert settings.keys() == AUTHENTICATION_KINDS.keys()
    made = {name: kind.make(f"my {name}", settings[name], CLOCK) for name, kind in AUTHENTICATION_KINDS.items()}
    assert made["anonymous"].authenticate(None).provider == "my anonymous"
    assert made["user-file"].authenticate(password("alice")).provider == "my user-file"


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("user-file", UserFileSettings(path="x", scheme="md5"), "scheme is 'md5'.*argon2id, scram-sha-256"),
        ("user-file", UserFileSettings(path="x", concurrent=0), "concurrent is 0, and at least 1"),
        ("user-file", UserFileSettings(path="x", scram_iterations=1), "scram_iterations is 1"),
        ("certificate", CertificateSettings(name_from="x"), "name_from is 'x'.*common-name"),
        ("jwt", JwtSettings(issuer="", audience="a", keys_file="f"), "the authentication jwt: issuer and audience"),
        ("introspection", IntrospectionSettings(url="http://x/", client_id="c", client_secret="s"), "use https"),
        ("introspection", IntrospectionSettings(url="https://x/", client_id="", client_secret=""), "client_secret"),
        (
            "introspection",
            IntrospectionSettings(url="https://x/", client_id="c", client_secret="s", ca_file="/no"),
            "'/no'",
        ),
    ],
)
def test_a_wrong_setting_is_named(name: str, settings: object, complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        AUTHENTICATION_KINDS[name].make("p", settings, CLOCK)


def test_a_missing_user_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PrivateFileError, match="no such user file"):
        AUTHENTICATION_KINDS["user-file"].make("p", UserFileSettings(path=str(tmp_path / "users")), CLOCK)


def test_what_is_not_installed_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(
        MissingProviderError, match=r"needs jwt; install it with: pip install 'pyjms-messaging\[oauth2\]'"
    ) as caught:
        AUTHENTICATION_KINDS["jwt"].make("p", JwtSettings(issuer="i", audience="a", keys_file="f"), CLOCK)
    assert isinstance(caught.value, ProviderError)


def test_the_table_the_rules_and_the_audit_cost_no_heavy_import() -> None:
    program = (
        "import sys, pyjms_provider.security.kinds, pyjms_provider.security.access, pyjms_provider.security.audit\n"
        "print([m for m in ('argon2', 'cryptography', 'jwt', 'scramp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"
