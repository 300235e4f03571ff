"""The machine's own key: made here by openssl, and never anywhere else.

This module is the ``Keys`` of ``node.ports`` on a real machine; it must not decide anything. Keys reach openssl by its
input, never by arguments.
"""

from hermesops.wire import processes
from hermesops.wire.errors import NotReadyError
from hermesops.wire.tls_key import present

_TIME_S = 30.0


def make() -> bytes:
    """A fresh private key, EC on P-256, PEM."""
    return _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")


def request(key: bytes) -> bytes:
    """A certificate signing request, PEM, without a name; it proves possession of the key.

    No configuration file is read, so local changes of it have no effect.
    """
    words = ("req", "-new", "-sha256", "-config", "/dev/null", "-subj", "/CN=machine", "-key", "/dev/stdin")
    return _openssl(*words, stdin=key)


def fits(key: bytes, certificate: bytes) -> bool:
    """Whether a certificate is of this key."""
    import ssl  # noqa: PLC0415 - resident processes do not hold it, see node.system.resident

    try:
        present(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), key, certificate)
    except ssl.SSLError:
        return False
    return True


def _openssl(*words: str, stdin: bytes = b"") -> bytes:
    done = processes.run(("openssl", *words), timeout_s=_TIME_S, stdin=stdin)
    if done.returncode or not done.stdout:  # what it says may repeat what it read
        raise NotReadyError(f"openssl {words[0]}: exit {done.returncode}")
    return done.stdout
