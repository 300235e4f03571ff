"""An operator who touches a user's agent says why, and it is written down before anything is sent."""

from hermesops.errors import UsageError
from hermesops.model.ids import instance_subject
from hermesops.model.instance import Instance
from hermesops.registry import Registry


class AuditedAccess:
    """Lets operators in, with a reason.

    Args:
        audit: The registry.
    """

    def __init__(self, audit: Registry) -> None:
        self._audit = audit

    def enter(self, instance: Instance, *, how: str, reason: str) -> None:
        """Record that somebody is about to ``chat`` with, ``exec`` on or open a ``shell`` on a user's machine.

        What is said or run is the user's business and is not recorded.

        Raises:
            UsageError: No reason was given; nothing was recorded or sent.
        """
        if not reason.strip():
            raise UsageError(
                f"{how} touches what belongs to {instance.title}; say why",
                hint=f'hermesops instance {how} … --reason "…"',
            )
        self._audit.audit.append(f"{how}_opened", instance_subject(instance.id), why=reason.strip())
