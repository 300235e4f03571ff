"""Certificates of a platform's host: how they are made, which ones still count, and their files for a real host."""

import ipaddress
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from hermesops.access.pki.authority import Authority, OwnedCertificate
from hermesops.base.files.private_file import make_private_folder, replace_secret
from hermesops.errors import RefusedError, UsageError, require_reason
from hermesops.model.access.certificate import CallerName
from hermesops.store.registry import Registry

PLATFORM = "hermesops-platform"
"""Name of the host itself in the certificate with which it is a client of others."""

INTERNAL_NAME = "platform.hermes.internal"
"""Name of a platform's host on itself: pgBackRest of Debian 12 verifies names only, no addresses."""

CERTIFICATE_LIFE = timedelta(days=90)
RENEWED_BEFORE = timedelta(days=30)

_MOST_HOSTS = 20
_LONGEST_NAME = 253
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
"""Source: RFC 1123, section 2.1."""


def certificate_names(host: str, *others: str) -> list[str]:
    """Names and addresses in a host's certificate: where it is reached, and its own of itself."""
    return list(dict.fromkeys([host, *others, "127.0.0.1", INTERNAL_NAME]))


def server_pair(authority: Authority, names: Sequence[str]) -> OwnedCertificate:
    """Issue the server certificate of a host's services for these names and addresses."""
    return authority.serve(names, life=CERTIFICATE_LIFE)


def client_pair(authority: Authority, caller: CallerName) -> OwnedCertificate:
    """Issue the client certificate of a process of a host."""
    return authority.introduce(caller, life=CERTIFICATE_LIFE)


def is_good(certificate: str, names: Sequence[str], authority: Authority, now: datetime) -> bool:
    """Whether a host's certificate, PEM, is for those names, of that authority, and lasts for a month."""
    return _names_in(certificate, authority, now) == list(names)


def is_of_caller(certificate: str, caller: CallerName, authority: Authority, now: datetime) -> bool:
    """Whether a process's certificate, PEM, has that name, is of that authority, and lasts for a month."""
    return _names_in(certificate, authority, now) == list(caller.uris)


def _names_in(certificate: str, authority: Authority, now: datetime) -> list[str]:
    """Names of a certificate; none where it is another authority's or ends soon."""
    try:
        read = x509.load_pem_x509_certificate(certificate.encode())
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        read.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.encode()))
    except Exception:  # noqa: BLE001 - whatever the library raises of it, another one is made
        return []
    return [str(name.value) for name in names] if read.not_valid_after_utc - now > RENEWED_BEFORE else []


@dataclass(frozen=True)
class HostFiles:
    """A host's certificates in a folder.

    Attributes:
        changed: Names of the files that were written now; none where all last for a month still.
        not_after: When the first of them ends.
    """

    folder: Path
    names: tuple[str, ...]
    changed: tuple[str, ...]
    not_after: datetime


@dataclass(frozen=True)
class HostCertificates:
    """Issues and renews the certificates of hosts that hermesops does not reach itself, as files for their roles."""

    environment: str
    registry: Registry
    load_authority: Callable[[], Authority]

    def issue(self, hosts: Sequence[str], folder: Path, *, client: str, anew: bool, why: str) -> HostFiles:
        """Write the server's and the client's certificate and key, and the authorities that sign their peers.

        Those that are there and last for a month stay. Keys are replaced before certificates, so that whoever is
        interrupted does it again.

        Args:
            hosts: Names or addresses by which others reach the host.
            client: Name of the host's process in the certificate with which it asks others.
            anew: Replaces good ones, too, as after a key has leaked.

        Raises:
            UsageError: There is no reason, something is no name or address, or the client's is none that a certificate
                can have.
            RefusedError: Others than its owner may read the folder, or the authority's key is not to be had.
        """
        require_reason(why, "identity", "host", *hosts, "--out", str(folder))
        names = certificate_names(*_checked(hosts))
        caller = CallerName(self.environment, client)
        private_folder(folder)
        authority, now = self.load_authority(), datetime.now(UTC)
        written = dict[str, str]()
        server = _read(folder / "server.crt")
        if anew or not (is_good(server, names, authority, now) and _has_key(folder, "server")):
            written |= _pair("server", server_pair(authority, names))
        written |= _client(folder, caller, authority, now, anew=anew)
        authorities = "".join(self.registry.certificates.list_authorities())
        if _read(folder / "authorities.crt") != authorities:
            written["authorities.crt"] = authorities
        _write(folder, written)
        ends = min(_end_of(folder / f"{name}.crt") for name in ("server", "client"))
        if written:
            after = {"names": names, "client": client, "files": sorted(written), "not_after": ends.isoformat()}
            self.registry.audit.append("host_certificate_issued", f"host/{names[0]}", why=why, after=after)
        return HostFiles(folder, tuple(names), tuple(sorted(written)), ends)

    def issue_client(self, client: str, folder: Path, *, why: str) -> HostFiles:
        """Write the certificate and key with which a process of this host asks others; those that last a month stay.

        Args:
            client: Name of the process in the certificate.
            why: For the audit.

        Raises:
            UsageError: There is no reason.
            RefusedError: Others than its owner may read the folder, or the authority's key is not to be had.
        """
        require_reason(why, "console", "credentials", "--out", str(folder))
        private_folder(folder)
        caller = CallerName(self.environment, client)
        written = _client(folder, caller, self.load_authority(), datetime.now(UTC), anew=False)
        _write(folder, written)
        ends = _end_of(folder / "client.crt")
        if written:
            after = {"client": client, "files": sorted(written), "not_after": ends.isoformat()}
            self.registry.audit.append("client_certificate_issued", f"host/{client}", why=why, after=after)
        return HostFiles(folder, (client,), tuple(sorted(written)), ends)


def _client(folder: Path, caller: CallerName, authority: Authority, now: datetime, *, anew: bool) -> Mapping[str, str]:
    """A client's certificate and key, by the names of their files; none where those of the folder are good."""
    is_held = is_of_caller(_read(folder / "client.crt"), caller, authority, now) and _has_key(folder, "client")
    return {} if is_held and not anew else _pair("client", client_pair(authority, caller))


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files of a folder, keys first: whoever is interrupted finds a certificate that is not its key's."""
    for name in sorted(files, key=lambda name: not name.endswith(".key")):
        replace_secret(folder / name, files[name])


def _pair(name: str, certificate: OwnedCertificate) -> Mapping[str, str]:
    return {f"{name}.key": certificate.key, f"{name}.crt": certificate.pem}


def _checked(hosts: Sequence[str]) -> Sequence[str]:
    """The hosts, each one that a certificate can name.

    Raises:
        UsageError: One is not, or there are too many.
    """
    if not 0 < len(hosts) <= _MOST_HOSTS:
        raise UsageError(f"a certificate is for one to {_MOST_HOSTS} names and addresses, not {len(hosts)}")
    for host in hosts:
        if not is_host(host):
            raise UsageError(f"“{host[:80]}” is neither a host's name nor an address", hint="as monitoring.example.com")
    return hosts


def is_host(text: str) -> bool:
    """Whether a text is an address or a name of DNS, without port and wildcard."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return len(text) <= _LONGEST_NAME and _NAME.fullmatch(text) is not None
    return True


def private_folder(folder: Path) -> None:
    """Have a folder that nobody but its owner may read.

    Raises:
        RefusedError: Others may, or it is none.
    """
    try:
        make_private_folder(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise RefusedError(f"{folder} cannot be used as a folder: {error.strerror}") from error
    try:
        if os.fstat(descriptor).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise RefusedError(f"others may read the folder {folder}, which gets keys", hint=f"chmod 700 {folder}")
    finally:
        os.close(descriptor)


def _has_key(folder: Path, name: str) -> bool:
    """Whether the key is there that belongs to a certificate."""
    try:
        read = x509.load_pem_x509_certificate(_read(folder / f"{name}.crt").encode())
        key = load_pem_private_key(_read(folder / f"{name}.key").encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return key.public_key() == read.public_key()


def _end_of(file: Path) -> datetime:
    return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
