"""The key that signs releases where no operator's key does: an SSH key like any other."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def fresh_key() -> str:
    """A new key as OpenSSH writes it."""
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def as_file(text: str) -> str:
    """A key's text as OpenSSH reads it: it wants the newline at the end that secrets are kept without."""
    return f"{text.strip()}\n"
