"""The errors for instances and machines that refuse a request, each declared once."""

from collections.abc import Iterable

from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.suspension import Suspension
from hermesops.errors import BrokenInvariantError, Hint, Parameter, RefusedError, UnavailableError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import environment_in_name
from hermesops.model.operation import Operation
from hermesops.store.operations.kinds.table import KINDS, STOPS_GATEWAY
from hermesops.vendor.justavps.wire import MachineStatus
from hermesops.wire.foreign_text import one_line


def terminated(instance: Instance) -> RefusedError:
    """Refuse a change of a terminated instance; the hint provisions a new one for the user."""
    return RefusedError(
        f"instance {instance.id} was terminated", hint=Hint(("provision", "USER"), "gives the user a new one")
    )


def suspended(instance: Instance, suspension: Suspension | None = None) -> RefusedError:
    """The agent is suspended; it may be in its days of grace."""
    known = f" {one_line(str(suspension))}" if suspension else ""
    if instance.grace_until is None:
        return RefusedError(
            f"the agent of {instance.title} is suspended{known}",
            hint=Hint(("instance", "resume", instance.title, "--reason", "WHY")),
        )
    ends = f"the agent of {instance.title} ends at {instance.grace_until:%Y-%m-%d %H:%M} UTC"
    return RefusedError(
        f"{ends}; it is suspended{known}" if known else ends,
        hint=Hint(("instance", "terminate", instance.title, "--undo"), "cancels that"),
    )


def never_started(instance: Instance) -> RefusedError:
    """The instance's first gateway has not started."""
    return RefusedError(
        f"the agent of {instance.title} has not started yet",
        hint=Hint(("provision", instance.title), "continues the provision"),
    )


def operation_unfinished(instance: Instance, operation: Operation) -> RefusedError:
    """Another operation of the instance has not ended."""
    operation_id = operation.id
    return RefusedError(
        f"operation {operation_id} ({KINDS[operation.kind].title}) of {instance.title} has not ended",
        hint=Hint(
            ("operation", "continue", operation_id), "ends it,", ("operation", "abandon", operation_id), "gives it up"
        ),
    )


def no_backup(instance: Instance) -> RefusedError:
    """There is nothing that could be restored."""
    return RefusedError(f"{instance.title} has no backup", hint=Hint(("backup", "create", instance.title)))


def knows_no_provider(instance: Instance) -> RefusedError:
    """The machine's hermes-node is older than users' own model providers."""
    return RefusedError(
        f"hermes-node on the machine of {instance.title} is older than model providers of users",
        hint=Hint(("fleet", "converge", instance.title), "brings it the present one; then repeat the command"),
    )


def machine_silent(instance: Instance) -> UnavailableError:
    """A machine that has to answer does not."""
    return UnavailableError(
        f"machine {instance.machine_name} of {instance.title} does not answer",
        hint=Hint(("instance", "show", instance.title)),
    )


def unreachable(observation: Observation) -> RefusedError | UnavailableError:
    """The machine cannot be used now: it may answer later, but not while the agent is suspended, nor once it is gone.

    An operation opened before the suspension must not wait for its end: resuming waits for that operation.
    """
    if observation.instance.status is InstanceStatus.SUSPENDED:
        return suspended(observation.instance)
    is_gone = observation.existing_machine is None and observation.instance.machine_id is not None
    return machine_gone(observation) if is_gone else machine_silent(observation.instance)


def not_running(
    observation: Observation, unfinished: Iterable[Operation], suspension: Suspension | None
) -> RefusedError | UnavailableError:
    """A command that needs the machine finds none that runs; only what may pass by itself is worth a repetition."""
    instance, machine = observation.instance, observation.existing_machine
    if instance.status is InstanceStatus.TERMINATED:
        return terminated(instance)
    if busy := next((operation for operation in unfinished if operation.kind in STOPS_GATEWAY), None):
        return UnavailableError(
            f"machine {instance.machine_name} of {instance.title} does not run: {KINDS[busy.kind].title} of "
            f"{busy.created_at:%Y-%m-%d %H:%M} UTC has not ended",
            hint=Hint(("operation", "continue", busy.id), "; then the same command again"),
        )
    if instance.status is InstanceStatus.SUSPENDED:
        return suspended(instance, suspension)
    if machine is None:
        return machine_gone(observation) if instance.machine_id else never_started(instance)
    if machine.status is MachineStatus.STOPPED:
        return RefusedError(
            f"machine {instance.machine_name} of {instance.title} is stopped, and its agent should run",
            hint=Hint(("instance", "reboot", instance.title, "--reason", "WHY"), "starts it"),
        )
    return UnavailableError(
        f"machine {instance.machine_name} of {instance.title} is {machine.status.value}",
        hint=Hint(("instance", "show", instance.title)),
    )


def machine_in_error(name: str, *, hint: Hint | str) -> UnavailableError:
    """The vendor says that a machine is in error."""
    of_local = Hint(hint, ";", ("local", "status"), "says why")
    return UnavailableError(
        f"JustAVPS says that machine {name} is in error; it may recover by itself",
        hint=of_local if environment_in_name(name) == "local" else hint,
    )


def machine_gone(observation: Observation) -> RefusedError:
    """The machine does not exist any more. Never advises to end what can be restored."""
    instance = observation.instance
    message = f"machine {instance.machine_name} of {instance.title} is gone at JustAVPS"
    if observation.is_backed_up:
        return RefusedError(message, hint=Hint(("backup", "restore", instance.title, "--onto-new-machine")))
    return RefusedError(
        f"{message}, and there is no backup of it: the agent's state was only on that machine",
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
    """Refuse to start an agent whose state changed while its gateway was stopped, when nothing should write to it."""
    return BrokenInvariantError(
        f"the state of {instance.title} changed while the gateway was stopped: {'; '.join(changes)}",
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
        hint=Hint(
            ("settings", "show"),
            "lists region, plan_regions and server_types;",
            Parameter("region", "REGION"),
            "names another",
        ),
    )
