"""Keys and certificates of the users' processes, as files for the roles of a host that hermesops does not reach."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermesops.access.pki.callers import Callers
from hermesops.agents.relay.admission import CallerAdmission
from hermesops.agents.relay.credential import CallerPem
from hermesops.agents.relay.routes import API, CONNECTOR
from hermesops.base.files.private_file import read_secret, replace_secret
from hermesops.errors import RefusedError, require_reason
from hermesops.platform.parts.tls import private_folder

PROCESSES = (1, 2)
"""Processes of the API, each with a certificate of its own for the relay."""


@dataclass(frozen=True)
class IssuedFiles:
    """The files of a folder.

    Attributes:
        changed: Names of the files that were written now.
        missing: Names of secrets that the environment does not have; their files are empty.
    """

    folder: Path
    changed: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class UserCredentials:
    """Issues what the users' processes of one host get.

    Args:
        keys: Texts of secrets by the names of their files; an empty one is not there.
        callers: Admits the API's processes and the connector to the relay.
        authorities: That certificates may be signed by, PEM.
        has_connector: Whether the host has the connector.
    """

    keys: Callable[[], Mapping[str, str]] = field(repr=False)
    callers: Callable[[], Callers]
    authorities: Callable[[], str]
    has_connector: bool = False

    async def issue(self, folder: Path, *, why: str) -> IssuedFiles:
        """Write the keys, and a certificate for the relay for each process that calls it; one that counts stays.

        Args:
            folder: Gets the files, which are the same names at each run; nobody else may read it.
            why: For the audit.

        Raises:
            UsageError: There is no reason.
            RefusedError: Others may read the folder, or the authority's key is not to be had.
            UnavailableError: The registry or the backend of secrets does not answer.
        """
        require_reason(why, "api", "credentials", "--out", str(folder))
        private_folder(folder)
        texts = dict(self.keys())
        for name, caller in self._callers_by_file().items():
            present = _held(folder / name)
            admission = CallerAdmission(caller, self.callers, self.authorities)
            texts[name] = await admission.credential([_certificates(present)], why=why) or present
        changed = tuple(name for name, text in sorted(texts.items()) if _replace(folder / name, text))
        return IssuedFiles(folder, changed, tuple(name for name, text in sorted(texts.items()) if not text))

    def _callers_by_file(self) -> dict[str, str]:
        files = {f"relay-{number}.pem": API for number in PROCESSES}
        return files | ({"relay-connector.pem": CONNECTOR} if self.has_connector else {})


def _held(file: Path) -> str:
    """A caller's key, certificate and authorities, PEM; empty where the file has none that can be used."""
    try:
        pem = CallerPem.parse(read_secret(file, what="certificate for the relay"), str(file))
        pem.context()
    except RefusedError:
        return ""
    return pem.text


def _certificates(credential: str) -> str:
    """The certificates of a credential, without the key before them."""
    pem = CallerPem.parse(credential, "") if credential else None
    return f"{pem.certificate}{pem.authorities}" if pem else ""


def _replace(file: Path, text: str) -> bool:
    """Have a file with that text; whether it was written."""
    if file.exists() and file.read_text() == text:
        return False
    replace_secret(file, text)
    return True
