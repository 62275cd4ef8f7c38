"""Certificates of a deployment: an authority of its own, and certificates of MQTT servers that it issues.

Keys are on the curve P-256, which all clients of MQTT know. A public authority was rejected as the default: the servers
of a site seldom have names that the world knows.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from distced.middleware.model.errors import DistcedError

AUTHORITY_DAYS: Final = 3650
SERVER_DAYS: Final = 397
"""Validity, days; of a server as long as clients on all systems accept."""

_BACK: Final = timedelta(hours=1)
"""Clocks of participants may be behind."""


class CertificatePair(NamedTuple):
    """Certificate and its key, PEM."""

    certificate: bytes
    key: bytes


def new_authority(name: str, now: datetime, days: int = AUTHORITY_DAYS) -> CertificatePair:
    """Authority of a deployment, valid from now on."""
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    subject = _name(name)
    builder = (
        _certificate(subject, subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return CertificatePair(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM), _pem(key))


def issue(
    authority: CertificatePair, name: str, hosts: Sequence[str], now: datetime, days: int = SERVER_DAYS
) -> CertificatePair:
    """Certificate valid from now on: of an MQTT server, for the names and addresses of its host; without these, of a
    client, whose user the name may be.

    Raises `DistcedError` for an authority that cannot be read.
    """
    try:
        signer = load_pem_private_key(authority.key, None)
        issuer = x509.load_pem_x509_certificate(authority.certificate)
    except (ValueError, TypeError) as error:
        raise DistcedError(
            "not the certificate and key of an authority",
            allowed="PEM, without a passphrase",
            advice=f"to issue a certificate, put ca.key back into the folder authority ({error})",
        ) from None
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _certificate(_name(name), issuer.subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_alternative(each) for each in hosts])
        builder = builder.add_extension(names, critical=False)
    return CertificatePair(builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM), _pem(key))


def valid_until(certificate: bytes) -> datetime:
    """End of the validity of a certificate, UTC."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def is_issued_by(certificate: bytes, authority: bytes) -> bool:
    """Whether a certificate is of an authority, PEM both; not, where the authority was replaced."""
    try:
        read = x509.load_pem_x509_certificate
        read(certificate).verify_directly_issued_by(read(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACK)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(name: str) -> x509.Name:
    # 64 characters at most (RFC 5280, appendix A.1); the hosts are in the alternative names.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
