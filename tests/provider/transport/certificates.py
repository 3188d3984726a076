"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

_LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_FAR_OFF = dt.datetime(2120, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    @property
    def der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.certificate.read_text())


class Authority:
    """Signs certificates into a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._build(self._name, self._key, is_authority=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(certificate.public_bytes(Encoding.PEM))

    def sign(self, name: str, password: str | None = None) -> Identity:
        """Make a key and a certificate for `name`, which is valid for 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._build(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, is_authority=False)
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        identity = Identity(certificate=self._folder / f"{name}.pem", key=self._folder / f"{name}.key")
        identity.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        identity.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return identity

    def _build(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> x509.Certificate:
        addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        # Since Python 3.13 clients ask for these identifiers, and for what an authority may do.
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_LONG_AGO)
            .not_valid_after(_FAR_OFF)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(addresses, critical=False)
            .add_extension(issuer, critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(_usage(signs=is_authority), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """Return what a client uses that trusts this authority, and shows `identity`."""
        context = ssl.create_default_context(cafile=str(self.file))
        if identity is not None:
            context.load_cert_chain(identity.certificate, identity.key)
        return context


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
