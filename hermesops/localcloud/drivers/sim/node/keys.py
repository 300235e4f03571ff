"""Keys of simulated machines: the same as openssl makes, by a library, so that a fleet of them starts no process."""

from hermesops.node.errors import NotReadyError
from hermesops.node.protocol import Credential


class SimKeys:
    """Implements hermes-node's ``Keys``. The library is loaded by the first machine that boots."""

    def make(self) -> bytes:
        """See ``node.system.openssl.make``."""
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - as above
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        key = ec.generate_private_key(ec.SECP256R1())
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def request(self, key: bytes) -> bytes:
        """See ``node.system.openssl.request``."""
        from cryptography import x509  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - as above
            Encoding,
            load_pem_private_key,
        )

        held = load_pem_private_key(key, None)
        if not isinstance(held, ec.EllipticCurvePrivateKey):
            raise NotReadyError("the machine's key is no EC key")
        return (
            x509.CertificateSigningRequestBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "machine")]))
            .sign(held, hashes.SHA256())
            .public_bytes(Encoding.PEM)
        )

    def fits(self, key: bytes, certificate: bytes) -> bool:
        """See ``node.system.openssl.fits``."""
        from cryptography import x509  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - as above

        try:
            given = x509.load_pem_x509_certificate(certificate)
        except ValueError:
            return False
        return load_pem_private_key(key, None).public_key() == given.public_key()


def no_platform(_credential: Credential, _key: bytes, _method: str, _path: str, _body: bytes = b"") -> bytes:
    """Nobody answers: a simulated machine has no network of its own."""
    raise NotReadyError("a simulated machine reaches no platform")
