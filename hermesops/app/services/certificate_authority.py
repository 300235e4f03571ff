"""The authority that signs the certificates of machines and services, and the service that machines renew theirs at."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from hermesops.errors import UsageError
from hermesops.pki.authority import Authority, fresh_key, make_root, read_key
from hermesops.pki.certificates import Certificates
from hermesops.pki.server import MutualTlsServer, OwnCertificate
from hermesops.pki.service import DataKeys, PlatformService
from hermesops.private_file import make_secret, read_secret
from hermesops.registry import Registry
from hermesops.secrets.catalog import AUTHORITY_KEY
from hermesops.secrets.store import Secrets
from hermesops.settings import Environment

NO_URL = "nobody takes machines' certificates here: neither a platform_url is set nor a local world's"


@dataclass(frozen=True)
class CertificateAuthority:
    """The authority of one environment."""

    env: Environment
    registry: Registry
    secrets: Secrets

    @property
    def life(self) -> timedelta:
        """How long a certificate is valid."""
        return timedelta(days=self.env.settings.certificate_days)

    def load(self) -> Authority:
        """Read its key, which is made on first use, and never once machines trust another.

        Raises:
            RefusedError: The key is gone, damaged, or of an authority that nobody trusts.
        """
        is_first = not self.registry.certificates.list_authorities()
        text = self.secrets.made(AUTHORITY_KEY, fresh_key()) if is_first else self.secrets.read(AUTHORITY_KEY)
        source = self.secrets.held(AUTHORITY_KEY).where
        return Authority.load(text, self.registry, environment=self.env.name, source=source)

    def certificates(self, url: str) -> Certificates | None:
        """Issues machines' certificates; ``None`` if no service takes them.

        Args:
            url: Of the service that machines prove themselves to; empty for none.
        """
        if not url:
            return None
        return Certificates(self.registry, lambda: self._loaded, environment=self.env.name, url=url, life=self.life)

    @cached_property
    def _loaded(self) -> Authority:
        return self.load()

    async def service_certificate(self, hosts: Sequence[str]) -> OwnCertificate:
        """The certificate of a service that machines or other services connect to.

        It is made once now, so that a missing key is an error of the command that serves, and not of the first
        connection.

        Args:
            hosts: Names or addresses under which the service is found.

        Raises:
            RefusedError: The authority's key is gone, damaged, or of an authority that nobody trusts.
            UnavailableError: The registry does not answer.
        """
        own = OwnCertificate(self.load(), self.registry, hosts, self.life)
        await own.context()
        return own

    async def serve(self, listener: socket.socket, url: str) -> None:
        """Answer machines until cancelled; no controller and no vendor is needed for it.

        Args:
            listener: Listens, and does not block.
            url: Where machines find it.

        Raises:
            UsageError: Machines would not know where to find it.
        """
        certificates = self.certificates(url)
        if certificates is None:
            raise UsageError(NO_URL, hint="HERMESOPS_PLATFORM_URL=https://HOST:PORT")
        own = await self.service_certificate([urlsplit(url).hostname or ""])
        service = PlatformService(self.registry, certificates, DataKeys(self.registry), environment=self.env.name)
        await MutualTlsServer(service.answer, own.context).serve(listener)

    def trust(self, file: Path) -> None:
        """Make a key for another authority, which machines trust beside the one they know.

        Args:
            file: Takes the key; one that is there already is trusted as it is.

        Raises:
            RefusedError: The file may be read by others, or holds no such key.
        """
        if not self.registry.certificates.list_authorities():
            self.load()
        make_secret(file, fresh_key())
        key = read_key(read_secret(file, what="authority's key"), source=str(file))
        self.registry.certificates.trust_authority(make_root(key, self.env.name))
