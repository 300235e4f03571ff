"""Operators of the served console: roles, and the person whom a token of the issuer names."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

RECENT_S = 600.0
"""Seconds since an operator's sign-in in which a change may destroy something."""

_CLOCKS_S = 5.0
"""Seconds that the issuer's clock may be ahead of ours."""


class Role(IntEnum):
    """Roles of operators; each may do what the ones before it may."""

    VIEWER = 1
    """Sees every page."""

    OPERATOR = 2
    """Makes changes that can be undone."""

    ADMIN = 3
    """Makes changes that destroy something."""

    @property
    def word(self) -> str:
        """The name of the role, as people read it."""
        return self.name.lower()


@dataclass(frozen=True)
class Groups:
    """Groups of the issuer that give a role.

    Attributes:
        viewers, operators, admins: Names of groups.
    """

    viewers: Collection[str]
    operators: Collection[str]
    admins: Collection[str]

    def role_of(self, names: Collection[str]) -> Role | None:
        """The highest role of somebody in these groups; ``None`` for no role."""
        if any(name in self.admins for name in names):
            return Role.ADMIN
        if any(name in self.operators for name in names):
            return Role.OPERATOR
        return Role.VIEWER if any(name in self.viewers for name in names) else None


@dataclass(frozen=True)
class ConsoleOperator:
    """A person whom the issuer names.

    Attributes:
        name: For audit entries, as ``ada@example.org``.
        subject: The issuer's own id of the person.
        issued_at: Seconds since 1970, of the token that names the person.
        signed_in_at: Seconds since 1970, when the person last proved to the issuer who they are; ``None`` where the
            issuer does not say.
    """

    name: str
    subject: str
    role: Role
    issued_at: float
    signed_in_at: float | None = None

    def has_signed_in_lately(self, now: float) -> bool:
        """Whether the person signed in within the last ten minutes; ``now`` is in seconds since 1970."""
        return self.signed_in_at is not None and -_CLOCKS_S <= now - self.signed_in_at <= RECENT_S

    def actor(self, host: str) -> str:
        """The actor of audit entries, as a proved identity; ``host`` is the console's name."""
        return f"{self.name}@oidc:{host}"
