"""A check of a policy: the program whose resources it reads, and the violations that it finds. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hermesops.infra.stacks.platform.spec import Place
from hermesops.infra.stacks.registered import Registered


@dataclass(frozen=True)
class Violation:
    """A resource that violates a policy.

    Attributes:
        policy: Name of the policy.
        resource: Kind and logical name.
        what: Description of the violation.
    """

    policy: str
    resource: str
    what: str


@dataclass(frozen=True)
class Program:
    """Registered resources of a program, and its place."""

    place: Place
    resources: Sequence[Registered]

    @property
    def is_production(self) -> bool:
        """True for an environment with users' data."""
        return self.place.environment == "production"

    def of(self, *kinds: str) -> Iterator[Registered]:
        """Return the resources of some kinds."""
        return (resource for resource in self.resources if resource.kind in kinds)

    def of_aws(self) -> Iterator[Registered]:
        """Return the resources with AWS's types."""
        return (resource for resource in self.resources if resource.type.startswith("aws:"))

    def beside(self, resource: Registered, kind: str) -> Registered | None:
        """Return the resource of a kind in the same component; ``None`` if there is none."""
        return next((other for other in self.of(kind) if other.parent == resource.parent), None)


@dataclass(frozen=True)
class Check:
    """One rule of a policy, for resources of some kinds.

    Attributes:
        policy: Name of its policy.
        kinds: Kinds of resources to check; empty for all of AWS.
        what: Description of a violation.
        wrong: Checks a resource: false or an empty text for success, another text for details of the violation.
    """

    policy: str
    kinds: tuple[str, ...]
    what: str
    wrong: Callable[[Program, Registered], object]


def lacks(*keys: str) -> Callable[[Program, Registered], bool]:
    """Make a check that one of these properties is missing, empty or false."""
    return lambda _, resource: not all(resource.inputs.get(key) for key in keys)


def has(*keys: str) -> Callable[[Program, Registered], bool]:
    """Make a check that one of these properties is present, and neither empty nor false."""
    return lambda _, resource: any(resource.inputs.get(key) for key in keys)


def is_not(key: str, value: object) -> Callable[[Program, Registered], bool]:
    """Make a check that a property has another value."""
    return lambda _, resource: resource.inputs.get(key) != value


def group_of(rule: Registered) -> str:
    """Name of the security group that a rule is of: a dry run's ids are names."""
    return str(rule.inputs.get("securityGroupId", "")).removesuffix("-id")
