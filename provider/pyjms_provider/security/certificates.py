"""Authentication by TLS client certificates (SASL's EXTERNAL).

TLS has verified the chain against the port's trust store, and the possession of the key; this is not repeated here.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from pyjms.spi.clock import Clock
from pyjms_provider.security.contracts import (
    Authenticator,
    CertificateCredentials,
    Credentials,
    Principal,
    wrong_credentials,
)
from pyjms_provider.security.settings import CertificateSettings

_log = logging.getLogger(__name__)
_LONGEST_NAME: Final = 1024


class NameFrom(Enum):
    """The part of a certificate that is the name of the user."""

    COMMON_NAME = "common-name"
    """The only CN of the subject."""
    SUBJECT = "subject"
    """The whole subject in the format of RFC 4514: ``CN=alice,OU=shop,O=Example``."""
    DNS_NAME = "dns-name"
    """The only DNS name among the subject's alternative names."""
    EMAIL = "email"
    """The only e-mail address among the subject's alternative names."""
    URI = "uri"
    """The only URI among the subject's alternative names, for instance that of SPIFFE."""


class CertificateAuthenticator(Authenticator):
    """Authenticates users by their TLS certificates."""

    def __init__(self, settings: CertificateSettings, clock: Clock, *, name: str = "certificate") -> None:
        """`name`: that of this provider, in `Principal.provider`."""
        self._settings = settings
        self._name_from = NameFrom(settings.name_from)
        self._clock = clock
        self._name = name

    def handles(self, credentials: Credentials | None) -> bool:
        return isinstance(credentials, CertificateCredentials)

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        if not isinstance(credentials, CertificateCredentials):
            raise wrong_credentials()
        try:
            certificate = x509.load_der_x509_certificate(credentials.certificate)
            problem = self._problem(certificate)
            names = _names(certificate, self._name_from)
            groups = _units(certificate) if self._settings.are_units_groups else frozenset()
        except ValueError as error:  # any part of the certificate is damaged or unknown
            _log.warning("PYJMS-SECURITY-6 the certificate of %a cannot be understood: %s", peer, error)
            raise wrong_credentials() from error
        # With two names it would be ambiguous which user logs in.
        if problem is None and len(names) != 1:
            problem = f"it has {len(names)} names of the kind {self._settings.name_from}, and one is expected"
        if problem is None and not _is_name(names[0]):
            problem = "its name is empty, too long or has control characters"
        if problem is not None:
            _log.warning("PYJMS-SECURITY-6 the certificate of %a is refused: %s", peer, problem)
            raise wrong_credentials()
        return Principal(name=names[0], groups=groups, provider=self._name)

    def _problem(self, certificate: x509.Certificate) -> str | None:
        """Return what is wrong with the certificate now: there may have been a long time between handshake and log-in."""
        now_s = self._clock.time_ms() / 1000
        if not certificate.not_valid_before_utc.timestamp() <= now_s <= certificate.not_valid_after_utc.timestamp():
            return "it is not valid now"
        if self._settings.issuer and certificate.issuer.rfc4514_string() != self._settings.issuer:
            return "it has another issuer than the one that is asked for"
        return None


def _names(certificate: x509.Certificate, name_from: NameFrom) -> list[str]:
    if name_from is NameFrom.SUBJECT:
        return [certificate.subject.rfc4514_string()]
    if name_from is NameFrom.COMMON_NAME:
        return [str(entry.value) for entry in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    if name_from is NameFrom.DNS_NAME:
        return alternatives.get_values_for_type(x509.DNSName)
    if name_from is NameFrom.EMAIL:
        return alternatives.get_values_for_type(x509.RFC822Name)
    return alternatives.get_values_for_type(x509.UniformResourceIdentifier)


def _units(certificate: x509.Certificate) -> frozenset[str]:
    units = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
    return frozenset(str(entry.value) for entry in units)


def _is_name(name: str) -> bool:
    return 0 < len(name) <= _LONGEST_NAME and name.isprintable()
