"""Settles creates that an interrupted run began: looks them up by name, then takes them over or forgets them.

They are never repeated blindly. (The CLI repeats them, and makes a second one: recordings, ``crash_cli:12``.)
"""

from collections.abc import Collection
from dataclasses import replace

from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.plugin import Found, ProviderFaultError
from hermesops.engine.embedded.run.apply import Applier, with_outputs
from hermesops.engine.embedded.state.deployment import Deployment, Resource
from hermesops.errors import RefusedError
from hermesops.model.stack import StackRef

UNSEEN = "an interrupted run made it; it was not seen to become ready"
"""An init error makes the next step an update even where nothing differs, and the update waits until it is ready."""


def stuck_in(deployment: Deployment) -> list[Resource]:
    """What an interrupted run began to create outside the state and nobody has seen end."""
    return [op.resource for op in deployment.pending if op.kind == "creating" and op.resource.is_external]


def refuse_unadoptable(ref: StackRef, before: Deployment, adopting: Collection[str]) -> None:
    """Refuse to go on over creates that cannot be looked up by name.

    Raises:
        RefusedError: There are such creates; names them and the commands that settle them.
    """
    stuck = [resource for resource in stuck_in(before) if urns.package_of(resource.type) not in adopting]
    if stuck:
        names = ", ".join(f"{urns.name_of(resource.urn)} ({resource.type})" for resource in stuck)
        raise RefusedError(
            f"an interrupted run began to create {names} and it is not known whether they exist",
            hint=f"look for them at their vendor; delete what is there, then run "
            f"`pulumi refresh --clear-pending-creates --stack {ref.stack}`",
        )


async def settle_creates(applier: Applier) -> None:
    """Settle the unconfirmed creates at the start of a run.

    Raises:
        StopRunError: One could not be looked up; why has been told.
    """
    journal = applier.journal
    for operation in [op for op in journal.pending if op.kind == "creating"]:
        wanted = operation.resource
        if not wanted.is_external:
            journal.pending.remove(operation)  # what no provider made does not exist anywhere
            continue
        try:
            provider = await applier.providers.of_state(wanted.provider, or_default=True)
            found = await provider.find_by_name(wanted.urn, wanted.inputs)
        except ProviderFaultError as fault:
            applier.fail_with(fault, wanted.urn)
        journal.pending.remove(operation)
        name = urns.name_of(wanted.urn)
        if found is None or any(found.id == old.id for old in journal.resources):
            applier.events.warning(f"an interrupted run began to create {name}; nothing new bears its name", wanted.urn)
        else:
            _take_over(applier, wanted, found)
            applier.events.warning(
                f"an interrupted run made {name}; found by its name as {found.id} and taken over", wanted.urn
            )
        journal.save()


def _take_over(applier: Applier, wanted: Resource, found: Found) -> None:
    journal = applier.journal
    for old in [r for r in journal.resources if r.urn == wanted.urn and not r.delete]:
        if old.pending_replacement:
            journal.move(old, None)
        else:
            journal.swap(old, replace(old, delete=True))
    # Unprotected until the program that wants it runs. Otherwise an unwanted one could never be removed: it was in no
    # state when its protection should have been dropped.
    bare = replace(wanted, inputs=found.inputs, init_errors=found.reasons or (UNSEEN,), protect=False)
    journal.left.append(with_outputs(bare, found.id, found.outputs))
