"""A key of TLS that is in no file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext


def present(context: "SSLContext", key: bytes, certificate: bytes) -> None:
    """Authenticate connections with a key that is in no file.

    Raises:
        ssl.SSLError: Key and certificate do not belong together.
    """
    with _in_memory(certificate) as cert_file, _in_memory(key) as key_file:
        context.load_cert_chain(cert_file, key_file)


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path to the bytes while the context lasts; they are on no disk."""
    descriptor = os.memfd_create("hermes-node", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
