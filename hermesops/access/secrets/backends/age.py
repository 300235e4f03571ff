"""An age-encrypted file as a backend of secrets: one file for several readers, which may be committed.

``<file>.recipients`` lists its readers, a line each, as ``age -R`` takes them: ``age1…`` or an SSH public key.
The file holds JSON, encrypted as a whole and armored; ``age -d -i IDENTITY FILE`` shows it.

Source: https://age-encryption.org/v1 (format), age(1) (recipients files), pyrage 1.4 (the library).
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyrage

from hermesops.base.files.private_file import make_private_folder, read_secret, replace_secret
from hermesops.errors import RefusedError

_VERSION = 1
_SSH = "ssh-"
_SECRET_KEY = "AGE-SECRET-KEY-"  # noqa: S105 - how every age identity begins


@dataclass(frozen=True)
class _Kept:
    """Text and time of one secret in the file."""

    text: str
    changed_at: str


class AgeBackend:
    """Secrets in one age-encrypted file, which is rewritten at every change.

    Args:
        file: Which; made with the first secret.
        identity: File of age identities or an SSH private key without passphrase; opens it.
    """

    def __init__(self, file: Path, identity: Path | None) -> None:
        self._file = file
        self._recipients = file.with_name(f"{file.name}.recipients")
        self._identity = identity

    @property
    def title(self) -> str:
        """Name of the backend for people: ``age:`` and the file."""
        return f"age:{self._file}"

    def names(self) -> frozenset[str]:
        """Return the names of the secrets in the file."""
        return frozenset(self._open())

    def read(self, name: str) -> str | None:
        """Return the text of one secret; ``None`` if the file lacks it."""
        secret = self._open().get(name)
        return secret.text.strip() if secret else None

    def write(self, name: str, text: str) -> None:
        """Write the file with this secret in it, for all recipients.

        Raises:
            RefusedError: There are no recipients, or our identity is none of them.
        """
        with self._alone():
            self._save({**self._open(), name: _Kept(text, _now())})

    def make(self, name: str, text: str) -> str:
        """Write it unless there is one; processes of this computer take turns."""
        with self._alone():
            secrets = self._open()
            if name not in secrets:
                self._save({**secrets, name: _Kept(text, _now())})
                return text
            return secrets[name].text

    def changed_at(self, name: str) -> datetime | None:
        """Return the time of a secret's last write, from the file."""
        secret = self._open().get(name)
        return datetime.fromisoformat(secret.changed_at) if secret else None

    def path(self, name: str) -> Path | None:  # noqa: ARG002 - the Protocol's signature
        """Return ``None``: no file contains only one secret."""
        return None

    def _open(self) -> dict[str, _Kept]:
        try:
            sealed = self._file.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise RefusedError(f"the secrets in {self._file} cannot be read: {error.strerror}") from error
        try:
            plain = pyrage.decrypt(sealed, self._identities())
        except pyrage.DecryptError as error:
            raise RefusedError(
                f"{self._identity} does not open {self._file}: {error}",
                hint=f"ask one of its readers to add you to {self._recipients} and to set a secret again",
            ) from error
        try:
            content = json.loads(plain)
            return {name: _Kept(entry["text"], entry["changed_at"]) for name, entry in content["secrets"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            # The cause would carry the file's text, which is secret.
            raise RefusedError(
                f"{self._file} does not contain secrets of hermesops", hint=f"git log -- {self._file}"
            ) from None

    def _save(self, secrets: dict[str, _Kept]) -> None:
        content: dict[str, Any] = {
            "version": _VERSION,
            "secrets": {name: vars(secrets[name]) for name in sorted(secrets)},
        }
        sealed = pyrage.encrypt(json.dumps(content, indent=1).encode(), self._readers(), armored=True)
        try:
            pyrage.decrypt(sealed, self._identities())
        except pyrage.DecryptError:
            raise RefusedError(
                f"{self._identity} is none of the recipients in {self._recipients}: you could not read the result",
                hint=f"add its public half there: age-keygen -y {self._identity}, or the line of the SSH key's .pub",
            ) from None
        replace_secret(self._file, sealed.decode())

    def _readers(self) -> list[Any]:
        try:
            lines = [line.strip() for line in self._recipients.read_text().splitlines()]
        except (OSError, UnicodeDecodeError):
            lines = []
        recipients = [line for line in lines if line and not line.startswith("#")]
        if not recipients:
            raise RefusedError(
                f"the secrets would be unreadable: no recipients in {self._recipients}",
                hint=f"age-keygen -y IDENTITY >> {self._recipients}; one line each, SSH public keys count too",
            )
        try:
            return [
                pyrage.ssh.Recipient.from_str(line) if line.startswith(_SSH) else pyrage.x25519.Recipient.from_str(line)
                for line in recipients
            ]
        except pyrage.RecipientError as error:
            raise RefusedError(f"a line of {self._recipients} is no recipient of age: {error}") from error

    def _identities(self) -> list[Any]:
        if self._identity is None:
            raise RefusedError(
                f"{self._file} cannot be decrypted: no secrets.identity is set",
                hint="age-keygen -o FILE, or an SSH key",
            )
        text = read_secret(self._identity, what="identity of age")
        try:
            if lines := [line.strip() for line in text.splitlines() if line.startswith(_SECRET_KEY)]:
                return [pyrage.x25519.Identity.from_str(line) for line in lines]
            return [pyrage.ssh.Identity.from_buffer(f"{text}\n".encode())]
        except pyrage.IdentityError:
            # The cause may repeat the key.
            raise RefusedError(
                f"{self._identity} holds no identity that opens age files",
                hint="lines AGE-SECRET-KEY-1…, or an SSH key (ed25519 or RSA) without a passphrase",
            ) from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        make_private_folder(self._file.parent)
        lock = self._file.with_name(f".{self._file.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
