"""State of the users' API and its work, read from rows: counts and ids, and nothing that a user said."""

from dataclasses import dataclass

from hermesops.model.api_figures import UsersHalf
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class ApiStatus:
    """Reads the state; nobody but the registry is asked."""

    registry: Registry

    def read(self) -> UsersHalf:
        """The state now.

        Raises:
            UnavailableError: The registry does not answer.
        """
        return self.registry.users_half.read()
