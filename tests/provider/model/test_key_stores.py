"""Key stores: what is wrong with their files is told, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms_provider.model.attributes import MASK
from pyjms_provider.model.errors import InvalidAttributesError
from tests.provider.model.certificates import write_certificate
from tests.provider.model.world import Folder


def test_a_wrong_key_store_says_what_is_wrong(folder: Folder) -> None:
    assert folder.system is not None
    broker = folder.system.broker
    certificate, key = write_certificate(folder.path)
    _, other = write_certificate(folder.path, "other")
    (folder.path / "empty").write_text("")
    its, sealed = write_certificate(folder.path, "sealed", b"secret")
    what_to_do = "must be PEM, belong to that certificate, and be readable by the broker; an encrypted one needs its key_password"
    for attributes, says in (
        (
            {"certificate_file": "/nowhere"},
            "certificate_file: /nowhere cannot be read: No such file or directory; name a file that",
        ),
        (
            {"certificate_file": "certs/broker.pem"},
            r"certs/broker.pem cannot be read: .* may read, \${pyjms.work_dir}/certs/broker.pem for one beside its configuration",
        ),
        ({"certificate_file": str(folder.path / "empty")}, "certificate_file: .*empty has no certificates"),
        ({"certificate_file": key}, "certificate_file: .* has no certificates in PEM form, with BEGIN CERTIFICATE; is"),
        (
            {"certificate_file": certificate, "key_file": other},
            f"key_file: {other} cannot be used as the .*: the key belongs to another certificate; it {what_to_do}",
        ),
        (
            {"certificate_file": certificate, "key_file": "/nokey"},
            f"key_file: /nokey cannot be used as the .*: No such file or directory; it {what_to_do}",
        ),
        (
            {"certificate_file": its, "key_file": sealed},
            f"key_file: {sealed} cannot be used as the .*: it is no PEM, or encrypted with .*; it {what_to_do}",
        ),
        (
            {"certificate_file": its, "key_file": sealed, "key_password": "wrong"},
            f"key_file: {sealed} cannot be used as the .*; it {what_to_do}",
        ),
        (
            {"certificate_file": certificate},
            f"key_file: {certificate} cannot be used as the private key of {certificate}",
        ),
    ):
        with pytest.raises(InvalidAttributesError, match=says):
            broker.create_child("key_store", {"name": "k", **attributes})
    broker.create_child("key_store", {"name": "k", "certificate_file": certificate, "key_file": key})


def test_a_key_store_whose_file_has_gone_is_told_of_all_the_same(folder: Folder) -> None:
    assert folder.system is not None
    certificate, key = write_certificate(folder.path)
    store = folder.system.broker.create_child(
        "key_store", {"name": "k", "certificate_file": certificate, "key_file": key}
    )
    assert store.statistic_values()["expires_at_ms"] > 0
    Path(certificate).unlink()
    assert store.statistic_values() == {"subjects": [], "expires_at_ms": None}


@pytest.mark.realises("BJ-ATT-3")
def test_the_password_of_a_private_key_is_in_no_file_in_clear_and_works_after_a_restart(folder: Folder) -> None:
    assert folder.system is not None
    certificate, key = write_certificate(folder.path, password=b"0v3rh34rd")
    files = {"certificate_file": certificate, "key_file": key}
    folder.system.broker.create_child("key_store", {"name": "keys", **files, "key_password": "0v3rh34rd"})
    folder.open()
    written = [each.read_bytes() for each in folder.path.rglob("*") if each.is_file()]
    assert any(b"key_password" in each for each in written)
    assert not any(b"0v3rh34rd" in each for each in written)
    found = folder.system.broker.child("key_store", "keys")
    assert found.statistic_values(["subjects"]) == {"subjects": ["CN=server"]}
    for actual in (False, True):
        assert found.attribute_values(["key_password"], actual=actual) == {"key_password": MASK}
