"""The changes that operators may ask for in the served console, each with the role that it needs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.model.access.console_operator import Role
from hermesops.model.operation import Operation


@dataclass(frozen=True)
class OperatorAction:
    """A change of one instance.

    Attributes:
        begin: Opens its operation for a user, with a reason, as its command does.
        needs_recent_sign_in: Whether the operator must have proved to the issuer within the last ten minutes who they
            are: a session that others took over destroys nothing.
    """

    role: Role
    begin: Callable[[InstanceRequests, str, str], Awaitable[Operation]]
    needs_recent_sign_in: bool = False


ACTIONS: Mapping[str, OperatorAction] = {
    "restart": OperatorAction(Role.OPERATOR, lambda requests, user, why: requests.restart(user, reason=why)),
    "reboot": OperatorAction(Role.OPERATOR, lambda requests, user, why: requests.reboot(user, reason=why)),
    "suspend": OperatorAction(Role.OPERATOR, lambda requests, user, why: requests.suspend(user, keep=None, reason=why)),
    "resume": OperatorAction(Role.OPERATOR, lambda requests, user, why: requests.resume(user, reason=why)),
    "terminate": OperatorAction(
        Role.ADMIN,
        lambda requests, user, why: requests.schedule_termination(user, reason=why),
        needs_recent_sign_in=True,
    ),
}
"""By their names in paths and rows. None destroys at once: an agent that ends has its days of grace."""
