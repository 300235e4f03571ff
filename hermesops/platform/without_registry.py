"""Works on a platform while the registry, which may be on it, does not answer.

Each function uses the registry if it answers. Else it takes the last known value, or goes on without and reports it.
"""

import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from hermesops.access.pki.authority import Authority
from hermesops.access.pki.client import client_context
from hermesops.access.secrets.catalog import AUTHORITY_KEY
from hermesops.access.secrets.store import Secrets
from hermesops.base.narration import Reporter
from hermesops.errors import UnavailableError
from hermesops.machines.image.build import SavedImages
from hermesops.model.access.certificate import OURS, CallerName
from hermesops.model.image import PLATFORM_IMAGE
from hermesops.observability.telemetry.endpoint import CERTIFICATE_S
from hermesops.platform.connection.settings import PlatformFiles
from hermesops.platform.stack import HeldLease
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client

T = TypeVar("T")

HoldLease = Callable[[str], AbstractAsyncContextManager[HeldLease]]
"""Holds the lease of a subject while the context lasts."""


class _NoLease:
    """Stands for a lease that no registry gives."""

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` and return its result; no lease guards it."""
        return await work


@asynccontextmanager
async def lease_or_none(hold_lease: HoldLease, report: Reporter, subject: str) -> AsyncIterator[HeldLease]:
    """Hold the lease of a subject, or none where the registry does not answer; Pulumi's own lock is held in any case.

    Raises:
        LeaseHeldError: Another process holds it.
    """
    async with AsyncExitStack() as stack:
        lease: HeldLease = _NoLease()
        try:
            lease = await stack.enter_async_context(hold_lease(subject))
        except UnavailableError as error:
            report(f"no lease is held, only Pulumi's own lock: {error.message}")
        yield lease


@dataclass(frozen=True)
class PlatformTrust:
    """The environment's authority and the authorities that are trusted on its platform.

    Args:
        registry: Opens the registry.
        load: Loads the authority, checked against the registry.
    """

    env: Environment
    registry: Callable[[], Registry]
    secrets: Secrets
    load: Callable[[], Authority]

    def authorities(self) -> str:
        """Authorities that certificates may be signed by, as PEM.

        Raises:
            UnavailableError: The registry does not answer, and this computer has no copy of them.
        """
        try:
            return "".join(self.registry().certificates.list_authorities())
        except UnavailableError:
            copy = PlatformFiles(self.env).authorities
            if not copy.exists():
                raise
            return copy.read_text()

    def authority(self) -> Authority:
        """The environment's authority; raises as ``authorities``."""
        try:
            return self.load()
        except UnavailableError:
            source = self.secrets.where(AUTHORITY_KEY)
            return Authority.of_trusted(self.secrets.read(AUTHORITY_KEY), self.authorities(), source=source)

    def context(self) -> ssl.SSLContext:
        """TLS of this process with the platform's monitoring; raises as ``authorities``."""
        caller, life = CallerName(self.env.name, OURS), timedelta(seconds=CERTIFICATE_S)
        return client_context(self.authority(), caller, roots=self.authorities(), life=life)


async def newest_image(registry: Callable[[], Registry], client: Client, report: Reporter) -> str:
    """The newest image of the platform if the vendor still has it; else empty."""
    try:
        image = registry().images.latest(PLATFORM_IMAGE)
    except UnavailableError as error:
        report(f"image {PLATFORM_IMAGE} is not looked up, as the registry does not answer: {error.message}")
        return ""
    return image.id if image and await SavedImages(client, report).is_bootable(image.id) else ""


def record_restart(registry: Callable[[], Registry], report: Reporter, services: Sequence[str], why: str) -> None:
    """Record in the audit log that services are restarted; without a registry it is only reported."""
    try:
        for service in services:
            registry().audit.append("service_restarted", f"platform/{service}", why=why)
    except UnavailableError as error:
        report(f"the restart is not in the audit log: {error.message}")
