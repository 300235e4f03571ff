"""SHA-256 of bytes in memory."""


def hexdigest(data: bytes) -> str:
    """The digest as 64 hexadecimal digits."""
    import hashlib  # noqa: PLC0415 - resident processes do not hold it, see node.system.resident

    return hashlib.sha256(data).hexdigest()
