"""The errors for instances and machines that refuse a request, each declared once."""

from hermesops.errors import BrokenInvariantError, Hint, RefusedError, UnavailableError
from hermesops.instances.observation import Observation
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Operation
from hermesops.operations.kinds import KINDS


def terminated(instance: Instance) -> RefusedError:
    """The instance has ended."""
    return RefusedError(
        f"instance {instance.id} was terminated", hint=Hint(("provision", "USER"), "gives the user a new one")
    )


def suspended(instance: Instance) -> RefusedError:
    """The agent is suspended; it may be in its days of grace."""
    if instance.grace_until is None:
        return RefusedError(
            f"the agent of {instance.title} is suspended", hint=Hint(("instance", "resume", instance.title))
        )
    return RefusedError(
        f"the agent of {instance.title} ends at {instance.grace_until:%Y-%m-%d %H:%M} UTC",
        hint=Hint(("instance", "terminate", instance.title, "--undo"), "cancels that"),
    )


def never_started(instance: Instance) -> RefusedError:
    """The instance's first gateway has not started."""
    return RefusedError(
        f"the agent of {instance.title} has not started yet",
        hint=Hint(("provision", instance.title), "finishes what was begun"),
    )


def operation_unfinished(instance: Instance, operation: Operation) -> RefusedError:
    """Another operation of the instance has not ended."""
    one = operation.id
    return RefusedError(
        f"operation {one} ({KINDS[operation.kind].title}) of {instance.title} has not ended",
        hint=Hint(("operation", "continue", one), "ends it,", ("operation", "abandon", one), "gives it up"),
    )


def no_backup(instance: Instance) -> RefusedError:
    """There is nothing that could be restored."""
    return RefusedError(f"{instance.title} has no backup", hint=Hint(("backup", "create", instance.title)))


def machine_silent(instance: Instance) -> UnavailableError:
    """A machine that has to answer does not."""
    return UnavailableError(
        f"machine {instance.machine_name} of {instance.title} does not answer",
        hint=Hint(("instance", "show", instance.title)),
    )


def unreachable(instance: Instance) -> RefusedError | UnavailableError:
    """The machine cannot be used now: it may answer later, but not while the agent is suspended.

    An operation opened before the suspension must not wait for its end: resuming waits for that operation.
    """
    return suspended(instance) if instance.status is InstanceStatus.SUSPENDED else machine_silent(instance)


def machine_in_error(name: str, *, hint: Hint | str) -> UnavailableError:
    """The vendor says that a machine is in error."""
    return UnavailableError(f"JustAVPS says that machine {name} is in error; it may recover by itself", hint=hint)


def machine_gone(seen: Observation) -> RefusedError:
    """The machine does not exist any more. Never advises to end what can be restored."""
    instance = seen.instance
    told = f"machine {instance.machine_name} of {instance.title} is gone at JustAVPS"
    if seen.is_backed_up:
        return RefusedError(told, hint=Hint(("backup", "restore", instance.title, "--onto-new-machine")))
    return RefusedError(
        f"{told}, and there is no backup of it: what the agent knew was on that machine only",
        hint=Hint(
            f"ask JustAVPS for machine {instance.machine_id} first; to begin anew without memory:",
            ("instance", "terminate", instance.title, "--now", "--without-backup"),
            ", then",
            ("provision", instance.title, "--plan", instance.plan),
        ),
    )


def other_instance(instance: Instance, holder: str | None) -> BrokenInvariantError:
    """The machine reports that it belongs to another instance.

    Args:
        instance: Its owner according to the registry.
        holder: Its owner according to the machine; ``None`` for no owner.
    """
    return BrokenInvariantError(
        f"machine {instance.machine_name} belongs to instance {holder or 'nobody'} by its own account, "
        f"to {instance.id} by the registry's",
        hint=Hint("touch neither before a person has looked:", ("instance", "show", instance.title)),
    )


def state_changed(instance: Instance, changes: tuple[str, ...]) -> BrokenInvariantError:
    """The state is not what it was, although nothing could write to it."""
    return BrokenInvariantError(
        f"the state of {instance.title} is not what it was: {'; '.join(changes)}",
        hint=Hint(
            "its gateway stays stopped;",
            ("operation", "list"),
            "shows the ID; once you know why:",
            ("operation", "abandon", "ID", "--reason", "WHY"),
            ", then",
            ("backup", "restore", instance.title, "--onto-new-machine"),
        ),
    )


def no_image(name: str) -> RefusedError:
    """No image was built that new machines could boot from."""
    return RefusedError(f"no image {name} has been built", hint=Hint(("image", "build", name)))


def not_sold(server_type: str, region: str) -> RefusedError:
    """The vendor has no such machine for rent in that region now."""
    return RefusedError(
        f"JustAVPS sells no {server_type} in {region} now",
        hint=Hint(("settings", "show"), "lists region, plan_regions and server_types; --region names another"),
    )
