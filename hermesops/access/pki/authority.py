"""The environment's certificate authority: signs certificates of machines, of callers and of the platform's services.

Of a request only the public key is read: hermesops decides the names.
It must not know which machines there are; rows are the registry's.
"""

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hermesops.errors import RefusedError
from hermesops.model.access.certificate import CallerName, MachineNames
from hermesops.store.registry import Registry

ROOT_DAYS = 3650
SKEW = timedelta(minutes=5)
"""How far the clock of a machine or of the platform may be behind the signer's."""

_WHAT = "authority's key"


@dataclass(frozen=True)
class Issued:
    """A certificate that was signed.

    Attributes:
        serial: Hexadecimal digits.
        key: SHA-256 of its public key, hexadecimal.
    """

    pem: str
    serial: str
    key: str
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True)
class OwnedCertificate:
    """Certificate of a process of hermesops, with its key.

    Attributes:
        key: PEM, private.
    """

    pem: str
    key: str = field(repr=False)
    not_after: datetime


class Authority:
    """Certificate authority of one environment: signs certificates of machines and services."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, root: x509.Certificate) -> None:
        self._key = key
        self._root = root

    @classmethod
    def load(cls, text: str, registry: Registry, *, environment: str, source: str) -> Self:
        """Load the authority of a key with a trusted certificate; the first key of an environment becomes trusted.

        ``source`` is the place of the key, for error messages.

        Raises:
            RefusedError: The key is damaged, or of an authority that is not trusted.
        """
        key = read_key(text, source=source)
        return cls(key, _find(key, registry) or _begin(key, registry, environment, source))

    @classmethod
    def of_trusted(cls, text: str, trusted: str, *, source: str) -> Self:
        """Load the authority of a key without the registry.

        Args:
            trusted: Certificates of authorities that are known to be trusted, PEM of each.

        Raises:
            RefusedError: The key is damaged, or of none of them.
        """
        key = read_key(text, source=source)
        for root in x509.load_pem_x509_certificates(trusted.encode()):
            if root.public_key() == key.public_key():
                return cls(key, root)
        raise RefusedError(f"{source} holds the key of an authority that is not trusted")

    @property
    def certificate(self) -> str:
        """The root certificate of the authority, PEM."""
        return self._root.public_bytes(Encoding.PEM).decode()

    def issue(self, request: str, names: MachineNames | CallerName, *, now: datetime, life: timedelta) -> Issued:
        """Sign the certificate of a machine or a service.

        Of the request, PEM, only the key is used that it proves to have. The certificate is valid from ``SKEW`` before
        ``now`` until ``life`` after it.

        Raises:
            RefusedError: It is no request, its signature is wrong, its key is not on P-256, or a name is too long.
        """
        key = _key_of(request)
        alternatives = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in names.uris])
        certificate = self._sign(
            key, _subject(names.subject), alternatives, ExtendedKeyUsageOID.CLIENT_AUTH, (now - SKEW, now + life)
        )
        return Issued(
            certificate.public_bytes(Encoding.PEM).decode(),
            f"{certificate.serial_number:x}",
            digest_of(key),
            certificate.not_valid_before_utc,
            certificate.not_valid_after_utc,
        )

    def serve(self, hosts: Sequence[str], *, life: timedelta) -> OwnedCertificate:
        """Make a key and sign a certificate for a service that machines find under these names or addresses.

        It is valid from ``SKEW`` before now, by this computer's clock: machines check it by theirs.
        """
        now = datetime.now(UTC)
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([_host(host) for host in hosts])
        span = (now - SKEW, now + life)
        certificate = self._sign(key.public_key(), _name(hosts[0]), alternatives, ExtendedKeyUsageOID.SERVER_AUTH, span)
        return OwnedCertificate(
            certificate.public_bytes(Encoding.PEM).decode(), _pem_of(key), certificate.not_valid_after_utc
        )

    def introduce(self, name: CallerName, *, life: timedelta) -> OwnedCertificate:
        """Make a key and sign the certificate with which a process of hermesops authenticates; it has no row.

        It is valid from ``SKEW`` before now, by this computer's clock. The relay refuses it, as it does every
        certificate without a row.
        """
        now = datetime.now(UTC)
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in name.uris])
        span = (now - SKEW, now + life)
        certificate = self._sign(
            key.public_key(), _subject(name.subject), alternatives, ExtendedKeyUsageOID.CLIENT_AUTH, span
        )
        return OwnedCertificate(
            certificate.public_bytes(Encoding.PEM).decode(), _pem_of(key), certificate.not_valid_after_utc
        )

    def _sign(
        self,
        key: ec.EllipticCurvePublicKey,
        subject: x509.Name,
        names: x509.SubjectAlternativeName,
        usage: x509.ObjectIdentifier,
        span: tuple[datetime, datetime],
    ) -> x509.Certificate:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._root.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(span[0])
            .not_valid_after(span[1])
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(authority, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def fresh_key() -> str:
    """A key for an authority, PEM."""
    return _pem_of(ec.generate_private_key(ec.SECP256R1()))


def read_key(text: str, *, source: str) -> ec.EllipticCurvePrivateKey:
    """An authority's key.

    Raises:
        RefusedError: It is none.
    """
    hint = f"restore {source} from a copy"
    try:
        key = load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError):  # the cause would carry the key
        raise RefusedError(f"the {_WHAT} in {source} is damaged", hint=hint) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise RefusedError(f"the {_WHAT} in {source} is no EC key on P-256", hint=hint)
    return key


def digest_of(key: ec.EllipticCurvePublicKey) -> str:
    """Return the SHA-256 of a public key, hexadecimal."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def make_root(key: ec.EllipticCurvePrivateKey, environment: str) -> str:
    """The self-signed certificate of an authority, PEM; it cannot sign other authorities."""
    now = datetime.now(UTC)
    name = _name(f"hermesops {environment} {digest_of(key.public_key())[:8]}")
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=ROOT_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
        .decode()
    )


def _find(key: ec.EllipticCurvePrivateKey, registry: Registry) -> x509.Certificate | None:
    public_key = key.public_key()
    certificates = (x509.load_pem_x509_certificate(pem.encode()) for pem in registry.certificates.list_authorities())
    return next((certificate for certificate in certificates if certificate.public_key() == public_key), None)


def _begin(key: ec.EllipticCurvePrivateKey, registry: Registry, environment: str, source: str) -> x509.Certificate:
    root = make_root(key, environment)
    registry.certificates.trust_authority(root, only_first=True)
    if (trusted := _find(key, registry)) is None:  # the registry trusts another key
        raise RefusedError(
            f"{source} holds the key of an authority that environment {environment} does not trust",
            hint=f"put the key that belongs to this registry back in {source}",
        )
    return trusted


def _key_of(request: str) -> ec.EllipticCurvePublicKey:
    try:
        parsed = x509.load_pem_x509_csr(request.encode())
        is_proved, key = parsed.is_signature_valid, parsed.public_key()
    except Exception:  # noqa: BLE001 - whatever the library raises for foreign bytes, it is no request
        raise RefusedError("this is no request for a certificate") from None
    if not is_proved:
        raise RefusedError("the request for a certificate is not signed by its own key")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise RefusedError("the request for a certificate is not of an EC key on P-256")
    return key


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


_ATTRIBUTES = {
    "CN": NameOID.COMMON_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "L": NameOID.LOCALITY_NAME,
    "UID": NameOID.USER_ID,
}


def _subject(named: Sequence[tuple[str, str]]) -> x509.Name:
    """The subject of a client's certificate; a name that does not fit is refused, as a part of it may be another's."""
    try:
        return x509.Name([x509.NameAttribute(_ATTRIBUTES[kind], name) for kind, name in named])
    except ValueError as error:
        raise RefusedError(f"no certificate can name {named[0][1]}: {error}") from error


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def read_peer(certificate: bytes) -> tuple[str, Sequence[str]]:
    """Serial (hexadecimal digits) and URIs of a certificate.

    The certificate is DER; the caller has verified that an authority of ours signed it.

    Raises:
        RefusedError: It has no names at all.
    """
    try:
        read = x509.load_der_x509_certificate(certificate)
        named = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        raise RefusedError("this certificate has no names") from None
    return f"{read.serial_number:x}", named.get_values_for_type(x509.UniformResourceIdentifier)


def end_of(certificate: bytes) -> datetime:
    """When a certificate ends; it is DER, and the caller has verified that an authority of ours signed it."""
    return x509.load_der_x509_certificate(certificate).not_valid_after_utc
