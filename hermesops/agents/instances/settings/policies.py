"""Policies of instances: how early and in which hours rollouts may change them."""

from dataclasses import dataclass, replace
from datetime import time
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hermesops.errors import Hint, Parameter, UsageError
from hermesops.model.fleet.instance import InstancePolicy, QuietHours

if TYPE_CHECKING:
    from hermesops.model.fleet.instance import Instance
    from hermesops.store.registry import Registry

_QUIET = Hint(Parameter("quiet_hours"), "reads BEGIN-END on the user's clock, as 22-07 or 22:30-07:00; none ends them")


@dataclass(frozen=True)
class PolicyChange:
    """A request to change a policy; fields at their defaults change nothing.

    Attributes:
        quiet_hours: BEGIN-END as an operator types it, ``22-07`` or ``22:30-07:00``; ``none`` ends them.
        timezone: An IANA name.
    """

    opt_in: bool | None = None
    protect: bool | None = None
    quiet_hours: str = ""
    timezone: str = ""

    def __post_init__(self) -> None:
        """Refuse a contradiction.

        Raises:
            UsageError: The instance would be first and last.
        """
        if self.opt_in and self.protect:
            raise UsageError(
                "one agent cannot be both opted in and protected: rollouts reach it first or last",
                hint=Hint("give either", Parameter("opt_in"), "or", Parameter("protect")),
            )

    def applied_to(self, policy: InstancePolicy) -> InstancePolicy:
        """The changed policy; opting in ends the protection, and the other way round.

        Raises:
            UsageError: The hours or the time zone cannot be read.
        """
        if self.opt_in is not None:
            policy = replace(policy, opted_in=self.opt_in, protected=policy.protected and not self.opt_in)
        if self.protect is not None:
            policy = replace(policy, protected=self.protect, opted_in=policy.opted_in and not self.protect)
        if self.quiet_hours or self.timezone:
            policy = replace(policy, quiet=_quiet(self.quiet_hours, self.timezone, policy.quiet))
        return policy


@dataclass(frozen=True)
class InstancePolicies:
    """Reads and changes rollout policies of instances."""

    registry: "Registry"

    def preview(self, instance: "Instance", change: PolicyChange) -> InstancePolicy:
        """The policy that a change leads to; nothing is written. Raises as ``change``."""
        return change.applied_to(self.registry.policies.get(instance.id))

    def change(self, instance: "Instance", change: PolicyChange, *, why: str = "") -> InstancePolicy:
        """Change an instance's policy, with an entry in the audit; nothing is written where it stays the same.

        Returns:
            The policy from now on.

        Raises:
            UsageError: The hours or the time zone cannot be read.
        """
        before = self.registry.policies.get(instance.id)
        after = change.applied_to(before)
        if after != before:
            self.registry.policies.set(instance.id, after, why=why)
        return after


def _quiet(text: str, timezone: str, before: QuietHours | None) -> QuietHours | None:
    if text == "none":
        return None
    zone = timezone or (before.timezone if before else "UTC")
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"{zone!r} is no time zone", hint="an IANA name, as Europe/Berlin or UTC") from None
    if not text:
        if before is None:
            raise UsageError("a time zone needs quiet hours, and there are none", hint=_QUIET)
        return QuietHours(before.begin, before.end, zone)
    begin, dash, end = text.partition("-")
    if not dash:
        raise UsageError(f"{text!r} are no hours", hint=_QUIET)
    hours = QuietHours(_hour(begin), _hour(end), zone)
    if hours.begin == hours.end:
        raise UsageError(f"{text!r} are no hours, or all of them: an agent that is never touched is frozen, not quiet")
    return hours


def _hour(text: str) -> time:
    hour, _, minute = text.strip().partition(":")
    try:
        return time(int(hour), int(minute or 0))
    except ValueError:
        raise UsageError(f"{text!r} is no time of day", hint=_QUIET) from None
