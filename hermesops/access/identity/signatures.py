"""Signatures of operators and pipelines: SSH keys, made and checked by ``ssh-keygen -Y``.

A signature is bound to a namespace, so that it cannot be used for another purpose.

Source: ssh-keygen(1) of OpenSSH 9.2, "-Y sign", "-Y find-principals", "-Y verify", "ALLOWED SIGNERS".
"""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hermesops.base import child_environment
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.access.signed_file import Content, SignedFile

_TIME_S = 60.0
"""ssh-agent may ask its user to touch a key."""


@dataclass(frozen=True)
class Signers:
    """The operator's key, and the allowed signers.

    Attributes:
        key: The operator's key; with a public one, ssh-agent has the private half.
        allowed: File of allowed signers, in OpenSSH's format.
        revoked: File of revoked keys, whatever ``allowed`` says: a KRL, or public keys, one a line.
    """

    key: Path | None = None
    allowed: Path | None = None
    revoked: Path | None = None

    def sign(self, data: bytes, *, namespace: str) -> str:
        """Sign some bytes with the operator's key.

        Returns:
            The signature, armored.

        Raises:
            RefusedError: There is no key, or it is missing, or it needs a passphrase.
        """
        if self.key is None:
            raise RefusedError(
                "nothing can be signed: no operator_key is set", hint="HERMESOPS_OPERATOR_KEY=~/.ssh/id_ed25519"
            )
        if not self.key.exists():
            raise RefusedError(f"the operator's key is missing: no file {self.key}", hint=Hint(("settings", "show")))
        done = _ssh_keygen("-Y", "sign", "-f", str(self.key), "-n", namespace, stdin=data)
        if done.returncode != 0 or not done.stdout:
            raise RefusedError(
                f"{self.key} failed to sign: {_last_line(done.stderr)}",
                hint="load a key with a passphrase by ssh-add; operator_key may then be its public half",
            )
        return done.stdout.decode()

    def verify(self, data: bytes, signature: str, *, namespace: str) -> str:
        """Check a signature.

        Returns:
            The identity that the allowed signers give to the key.

        Raises:
            RefusedError: It is malformed, of other data, or not by an allowed signer.
        """
        if self.allowed is None:
            raise RefusedError(
                "no signature can be checked: no allowed_signers is set",
                hint='HERMESOPS_ALLOWED_SIGNERS names a file of lines `identity namespaces="…" ssh-ed25519 …`',
            )
        if not self.allowed.exists():
            raise RefusedError(
                f"the allowed signers are missing: no file {self.allowed}", hint=Hint(("settings", "show"))
            )
        if self.revoked is not None and not self.revoked.exists():
            raise RefusedError(
                f"the revoked signers are missing: no file {self.revoked}", hint=Hint(("settings", "show"))
            )
        return _verified(data, signature, self.allowed, str(self.allowed), namespace, self.revoked)

    def sign_file(self, form: SignedFile[Content], content: Content) -> str:
        """The text of a file, signed with the operator's key.

        Raises:
            RefusedError: As ``sign``.
        """
        return form.to_text(content, self.sign(content.to_bytes(), namespace=form.kind))

    def verify_file(self, form: SignedFile[Content], text: str) -> tuple[Content, str]:
        """The content of a signed file, and the identity that signed it.

        Raises:
            UsageError: The text is no such file.
            RefusedError: As ``verify``.
        """
        content, signature = form.parse(text)
        return content, self.verify(content.to_bytes(), signature, namespace=form.kind)

    def public(self) -> str:
        """The operator's public key, as ``ssh-ed25519 AAAA…``.

        Raises:
            RefusedError: There is none.
        """
        if self.key is None or not self.key.exists():
            raise RefusedError("there is no operator's key", hint=Hint(("settings", "show")))
        text = self.key.read_text(errors="replace")
        if "PRIVATE KEY" in text:
            done = _ssh_keygen("-y", "-P", "", "-f", str(self.key))
            beside = self.key.with_name(f"{self.key.name}.pub")
            if done.returncode != 0 and not beside.exists():
                raise RefusedError(f"{self.key} does not open: {_last_line(done.stderr)}", hint="ssh-keygen -y -f KEY")
            text = done.stdout.decode() if done.returncode == 0 else beside.read_text()
        return " ".join(text.split()[:2])


def check(data: bytes, signature: str, *, signers: str, namespace: str, revoked: Path | None = None) -> str:
    """Check a signature against allowed signers that are given as text.

    Returns:
        The identity that they give to the key.

    Raises:
        RefusedError: It is malformed, of other data, or not by one of them.
    """
    with tempfile.NamedTemporaryFile("w", prefix="hermesops-signers-") as file:
        file.write(signers)
        file.flush()
        return _verified(data, signature, Path(file.name), "the list of signers", namespace, revoked)


def _verified(data: bytes, signature: str, allowed: Path, who: str, namespace: str, revoked: Path | None) -> str:
    with tempfile.NamedTemporaryFile("w", prefix="hermesops-signature-") as file:
        file.write(signature)
        file.flush()
        principals = _ssh_keygen("-Y", "find-principals", "-s", file.name, "-f", str(allowed))
        names = principals.stdout.decode(errors="replace").split("\n")
        if principals.returncode != 0 or not names[0]:
            raise RefusedError(
                f"the signature is by no signer that {who} allows", hint="ask one of the allowed signers to sign"
            )
        checked = _ssh_keygen(
            *("-Y", "verify", "-f", str(allowed), "-I", names[0], "-n", namespace, "-s", file.name),
            *(("-r", str(revoked)) if revoked else ()),
            stdin=data,
        )
    if checked.returncode != 0:
        message = _last_line(checked.stderr) or _last_line(checked.stdout)
        raise RefusedError(f"the signature of {names[0]} does not hold: {message}", hint="create and sign it again")
    return names[0]


def _ssh_keygen(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments],
            input=stdin,
            capture_output=True,
            timeout=_TIME_S,
            check=False,
            env=child_environment.made(child_environment.SSH_AGENT),
        )
    except FileNotFoundError as error:
        raise RefusedError("ssh-keygen is missing", hint="apt install openssh-client") from error
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"ssh-keygen did not answer within {_TIME_S:g} s", hint="ssh-add -l") from error


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def fresh_key() -> str:
    """A new Ed25519 key as OpenSSH writes it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - slow to load
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - as above
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def as_file(text: str) -> str:
    """A key's text as OpenSSH reads it: with the newline at the end that secrets are kept without."""
    return f"{text.strip()}\n"
