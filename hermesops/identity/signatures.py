"""Signatures of operators and pipelines: SSH keys, made and checked by ``ssh-keygen -Y``.

A signature is bound to a namespace, so that what was signed as one thing is never taken for another.

Source: ssh-keygen(1) of OpenSSH 9.2, "-Y sign", "-Y find-principals", "-Y verify", "ALLOWED SIGNERS".
"""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hermesops import child_environment
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.signed_file import Content, SignedFile

_TIME_S = 60.0
"""An agent may ask its owner to touch a key."""


@dataclass(frozen=True)
class Signers:
    """Who signs here, and whose signatures count.

    Attributes:
        key: The operator's key; a public one means that ssh-agent holds the other half.
        allowed: File of those whose signatures count, in OpenSSH's format.
        revoked: File of keys that count no more, whatever ``allowed`` says: a KRL or public keys, one a line.
    """

    key: Path | None = None
    allowed: Path | None = None
    revoked: Path | None = None

    def sign(self, data: bytes, *, namespace: str) -> str:
        """Sign some bytes with the operator's key.

        Returns:
            The signature, armored.

        Raises:
            RefusedError: There is no key, or it cannot be used: it is missing, or asks for a passphrase that nobody
                is there to type.
        """
        if self.key is None:
            raise RefusedError(
                "nothing can be signed: no operator_key is set", hint="HERMESOPS_OPERATOR_KEY=~/.ssh/id_ed25519"
            )
        if not self.key.exists():
            raise RefusedError(f"the operator's key is missing: no file {self.key}", hint="hermesops settings show")
        done = _ssh_keygen("-Y", "sign", "-f", str(self.key), "-n", namespace, stdin=data)
        if done.returncode != 0 or not done.stdout:
            raise RefusedError(
                f"{self.key} did not sign: {_last_line(done.stderr)}",
                hint="ssh-add holds a key with a passphrase ready; operator_key may then be its public half",
            )
        return done.stdout.decode()

    def verify(self, data: bytes, signature: str, *, namespace: str) -> str:
        """Check a signature.

        Returns:
            The identity that the allowed signers give to the key.

        Raises:
            RefusedError: It is none, of something else, or by somebody who may not sign.
        """
        if self.allowed is None:
            raise RefusedError(
                "no signature can be checked: no allowed_signers is set",
                hint='HERMESOPS_ALLOWED_SIGNERS names a file of lines `identity namespaces="…" ssh-ed25519 …`',
            )
        if not self.allowed.exists():
            raise RefusedError(
                f"the allowed signers are missing: no file {self.allowed}", hint="hermesops settings show"
            )
        if self.revoked is not None and not self.revoked.exists():
            raise RefusedError(
                f"the revoked signers are missing: no file {self.revoked}", hint="hermesops settings show"
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
            raise RefusedError("there is no operator's key", hint="hermesops settings show")
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
        RefusedError: It is none, of something else, or by nobody of them.
    """
    with tempfile.NamedTemporaryFile("w", prefix="hermesops-signers-") as file:
        file.write(signers)
        file.flush()
        return _verified(data, signature, Path(file.name), "the list of signers", namespace, revoked)


def _verified(data: bytes, signature: str, allowed: Path, who: str, namespace: str, revoked: Path | None) -> str:
    with tempfile.NamedTemporaryFile("w", prefix="hermesops-signature-") as file:
        file.write(signature)
        file.flush()
        found = _ssh_keygen("-Y", "find-principals", "-s", file.name, "-f", str(allowed))
        names = found.stdout.decode(errors="replace").split("\n")
        if found.returncode != 0 or not names[0]:
            raise RefusedError(
                f"the signature is by nobody whom {who} allows", hint="ask one of the allowed signers to sign"
            )
        checked = _ssh_keygen(
            *("-Y", "verify", "-f", str(allowed), "-I", names[0], "-n", namespace, "-s", file.name),
            *(("-r", str(revoked)) if revoked else ()),
            stdin=data,
        )
    if checked.returncode != 0:
        said = _last_line(checked.stderr) or _last_line(checked.stdout)
        raise RefusedError(f"the signature of {names[0]} does not hold: {said}", hint="make and sign it anew")
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
