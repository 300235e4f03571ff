"""Monitoring of an environment's platform: its endpoint, a client, and the error where there is none."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from hermesops.errors import Hint, UnavailableError, UsageError
from hermesops.model.access.certificate import OURS
from hermesops.observability.telemetry.addresses import monitoring_url_of
from hermesops.observability.telemetry.endpoint import MonitoringEndpoint
from hermesops.settings.environment import Environment

if TYPE_CHECKING:
    import ssl

    from hermesops.observability.telemetry.client import MonitoringClient


@dataclass(frozen=True)
class PlatformMonitoring:
    """Monitoring of one environment.

    Attributes:
        context: Makes the TLS context of a process by the name in its certificate; for ``CERTIFICATE_S``.
        runs_machines: Whether the environment's machines are real.
    """

    env: Environment
    context: "Callable[[str], ssl.SSLContext]" = field(repr=False)
    runs_machines: Callable[[], bool]

    def endpoint(self, name: str = OURS) -> MonitoringEndpoint | None:
        """Address and TLS of monitoring; ``None`` if the environment has none.

        Args:
            name: Of this process in its certificate, and label ``source`` of its samples.

        Raises:
            UnavailableError: It is the local world's, which is not up.
        """
        url = monitoring_url_of(self.env)
        return MonitoringEndpoint(url, partial(self.context, name)) if url else None

    def client(self) -> "MonitoringClient | None":
        """A client of monitoring; ``None`` if the environment has none. Raises as ``endpoint``."""
        # Lazily: commands that ask no monitoring must not pay for it.
        from hermesops.observability.telemetry.client import MonitoringClient  # noqa: PLC0415

        endpoint = self.endpoint()
        return MonitoringClient(endpoint.url, endpoint.context) if endpoint else None

    def require(self) -> "MonitoringClient":
        """A client of monitoring, for a command that needs it.

        Raises:
            UsageError: The environment has none.
        """
        client = self.client()
        if client is None:
            raise self._missing()
        return client

    def require_endpoint(self) -> MonitoringEndpoint:
        """Address and TLS of monitoring, for a command that needs it. Raises as ``require``."""
        endpoint = self.endpoint()
        if endpoint is None:
            raise self._missing()
        return endpoint

    @property
    def is_known(self) -> bool:
        """Whether there is monitoring to ask; a local world that is down has none."""
        try:
            return bool(monitoring_url_of(self.env))
        except UnavailableError:
            return False

    def _missing(self) -> UsageError:
        return UsageError(
            f"environment {self.env.name} has no monitoring: monitoring.url is empty, and no local world runs it",
            hint=self._hint(),
        )

    def _hint(self) -> Hint:
        """The way to monitoring here; simulated machines run none."""
        if not self.env.is_local or not self.runs_machines():
            return Hint("set monitoring.url to https://HOST:PORT")
        return Hint(("local", "up", "--monitoring"), "runs it, or set monitoring.url to https://HOST:PORT")
