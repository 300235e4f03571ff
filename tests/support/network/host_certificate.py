"""A certificate of hosts by itself, for servers on loopback that stand for hosts of the internet."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path, hostnames: Sequence[str]) -> tuple[Path, Path]:
    """Make the certificate and its key; returns their files."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hostnames[0])])
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1)
    )
    names = x509.SubjectAlternativeName([x509.DNSName(hostname) for hostname in hostnames])
    signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    files = folder / "host.crt", folder / "host.key"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
