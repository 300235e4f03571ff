"""Services that may call the relay, as the registry has them; no certificate is read or signed."""

from dataclasses import dataclass

from hermesops.errors import Hint, RefusedError, require_reason
from hermesops.model.access.certificate import Caller
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class CallerDirectory:
    """Lists and revokes certificates of services."""

    registry: Registry

    def list(self) -> tuple[Caller, ...]:
        """The certificates of all services, the newest of each first."""
        return self.registry.relay_callers.list()

    def revoke(self, name: str, *, why: str) -> int:
        """Revoke a service's certificates, so that the relay refuses its next request; returns their number.

        Raises:
            UsageError: There is no reason.
            RefusedError: None of its certificates is valid.
        """
        require_reason(why, "relay", "revoke", name)
        count = self.registry.relay_callers.revoke(name, why=why)
        if not count:
            raise RefusedError(f"no certificate of service {name} is valid", hint=Hint(("relay", "list")))
        return count
