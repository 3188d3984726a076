"""Key stores and trust stores: who the broker is, and whom it believes. Files are PEM, as every tool writes them."""

from __future__ import annotations

import ssl
from datetime import UTC
from pathlib import Path

from cryptography import x509

from pyjms_provider.model.attributes import Attributes, Secret, attribute
from pyjms_provider.model.configured import Startable
from pyjms_provider.model.errors import InvalidAttributesError, WrongStateError
from pyjms_provider.model.statistics import statistic
from pyjms_provider.transport.tls import why_unusable


class KeyStoreAttributes(Attributes):
    """What can be chosen for a key store."""

    certificate_file: str = attribute(
        "The certificate, followed by those of the authorities between it and the root.", min_length=1
    )
    key_file: str | None = attribute("The private key; none: it stands in the same file.", default=None)
    key_password: Secret | None = attribute("What the key is encrypted with.", default=None, secure=True)


class TrustStoreAttributes(Attributes):
    """What can be chosen for a trust store."""

    certificate_file: str = attribute("Certificates of the authorities that are trusted.", min_length=1)


def _no_certificates(file: str) -> str:
    return f"{file} has no certificates in PEM form, with BEGIN CERTIFICATE; is it the right file?"


def _beside(file: str) -> str:
    """Return how to name a file so that it is found wherever the broker is started, as by the system; empty: it is."""
    return "" if Path(file).is_absolute() else f", ${{pyjms.work_dir}}/{file} for one beside its configuration"


class _Certificates(Startable):
    """What the two have in common: a file with certificates."""

    def _read(self, file: str) -> list[x509.Certificate]:
        try:
            found = x509.load_pem_x509_certificates(Path(file).read_bytes())
        except OSError as error:
            text = f"{file} cannot be read: {error.strerror}; name a file that the broker may read{_beside(file)}"
            raise self._wrong("certificate_file", text) from error
        except ValueError as error:
            raise self._wrong("certificate_file", _no_certificates(file)) from error
        if not found:
            raise self._wrong("certificate_file", _no_certificates(file))
        return found

    def _certificates(self) -> list[x509.Certificate]:
        found = self.attributes
        assert isinstance(found, (KeyStoreAttributes, TrustStoreAttributes))
        return self._read(found.certificate_file)

    def _readable(self) -> list[x509.Certificate]:
        """Return the certificates; none if the file cannot be read any more: lists of others must not fail by that."""
        try:
            return self._certificates()
        except (InvalidAttributesError, WrongStateError):
            return []

    @statistic("Whose the certificates are; none: the file cannot be read.")
    def subjects(self) -> list[str]:
        """Whose the certificates are, as RFC 4514 writes it."""
        return [each.subject.rfc4514_string() for each in self._readable()]

    @statistic(
        "When the first of them is no longer valid, in milliseconds since 1970 UTC; none: the file cannot be read.",
        unit="ms",
    )
    def expires_at_ms(self) -> int | None:
        """When the first of them is no longer valid; None: the file cannot be read."""
        ends = [each.not_valid_after_utc.astimezone(UTC).timestamp() for each in self._readable()]
        return int(min(ends) * 1000) if ends else None


class KeyStore(_Certificates):
    """A private key, and the certificates that show whose it is."""

    category = "key_store"
    attributes_class = KeyStoreAttributes

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, KeyStoreAttributes)
        self._read(new.certificate_file)
        password = None if new.key_password is None else new.key_password.get_secret_value()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(new.certificate_file, new.key_file, password=lambda: password or "")
        except (OSError, ValueError) as error:
            text = (
                f"{new.key_file or new.certificate_file} cannot be used as the private key of {new.certificate_file}: "
                f"{why_unusable(error)}; it must be PEM, belong to that certificate, and be readable by the broker; "
                f"an encrypted one needs its key_password"
            )
            raise self._wrong("key_file", text) from error


class TrustStore(_Certificates):
    """Certificates of authorities; clients with a certificate of theirs are believed."""

    category = "trust_store"
    attributes_class = TrustStoreAttributes

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, TrustStoreAttributes)
        self._read(new.certificate_file)
