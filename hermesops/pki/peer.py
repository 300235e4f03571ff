"""Who is at the other end of a connection, as far as its certificate says."""

from collections.abc import Sequence

from cryptography import x509

from hermesops.errors import RefusedError


def read_peer(certificate: bytes) -> tuple[str, Sequence[str]]:
    """Serial (hexadecimal digits) and URIs of a certificate.

    Args:
        certificate: DER; whoever calls has seen that an authority of ours signed it.

    Raises:
        RefusedError: It has no names at all.
    """
    try:
        read = x509.load_der_x509_certificate(certificate)
        named = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        raise RefusedError("this certificate names nobody") from None
    return f"{read.serial_number:x}", named.get_values_for_type(x509.UniformResourceIdentifier)
