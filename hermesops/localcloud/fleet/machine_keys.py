"""A root key pair per machine, as the vendor makes one for every machine and shows it in every answer.

It must not reuse a pair: a test that finds one where it does not belong must know whose it is.
"""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


def new_key_pair(comment: str) -> tuple[str, str]:
    """A private key in OpenSSH's format and its public line."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return private, f"{public} {comment}"
