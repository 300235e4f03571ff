"""Settles what an interrupted run had begun to create: looked up by name, then taken over or forgotten.

It is never repeated blindly. (The CLI repeats it, and makes a second one: recordings, ``crash_cli:12``.)
"""

from collections.abc import Collection
from dataclasses import replace

from hermesops.engine.embedded.plugins.provider_pool import Providers
from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.answers import Found
from hermesops.engine.embedded.protocol.rpc import ProviderFaultError
from hermesops.engine.embedded.run.destroy_guard import guarded
from hermesops.engine.embedded.run.resources.apply import Applier
from hermesops.engine.embedded.state.deployment import Deployment, Operation, Resource
from hermesops.errors import RefusedError
from hermesops.model.stack import StackRef

UNSEEN = "an interrupted run made it; it was not seen to become ready"
"""Makes the next step an update even where nothing differs: that one waits until the thing is ready."""


def stuck_in(deployment: Deployment) -> list[Resource]:
    """What was begun to be created outside the state and never confirmed."""
    return [op.resource for op in deployment.pending if op.kind == "creating" and guarded(op.resource)]


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


class Unconfirmed:
    """The unconfirmed creates at the start of one run."""

    def __init__(self, applier: Applier, providers: Providers) -> None:
        self._applier = applier
        self._providers = providers

    async def settle(self) -> None:
        """Settle every one of them.

        Raises:
            StopRunError: One could not be looked up; why has been told.
        """
        journal = self._applier.journal
        for operation in [op for op in journal.pending if op.kind == "creating"]:
            if not guarded(operation.resource):
                journal.pending.remove(operation)  # what no provider made is not anywhere
                journal.unsaved = True
                continue
            found = await self._look_up(operation.resource)
            journal.pending.remove(operation)
            if found is None or any(found.id == old.id for old in journal.resources):
                name = urns.name_of(operation.resource.urn)
                self._applier.events.warning(
                    f"an interrupted run began to create {name}; nothing new bears its name", operation.resource.urn
                )
            else:
                self._take_over(operation, found)
            journal.save()

    async def _look_up(self, wanted: Resource) -> Found | None:
        try:
            provider = await self._providers.for_look_up(wanted.provider, self._applier.journal.resources)
            return await provider.look_up_by_name(wanted.urn, wanted.inputs)
        except ProviderFaultError as fault:
            self._applier.fail_asking(wanted.urn, fault)

    def _take_over(self, operation: Operation, found: Found) -> None:
        journal, wanted = self._applier.journal, operation.resource
        for old in [r for r in journal.resources if r.urn == wanted.urn and not r.delete]:
            if old.pending_replacement:
                journal.move(old, None)
            else:
                journal.swap(old, replace(old, delete=True))
        # Protected again by the program that wants it. One that nobody wants any more could never be removed else: it
        # was in no state when its protection should have been dropped.
        bare = replace(wanted, inputs=found.inputs, init_errors=found.reasons or (UNSEEN,), protect=False)
        journal.left.append(self._applier.with_outputs(bare, found.id, found.outputs))
        journal.unsaved = True
        self._applier.events.warning(
            f"an interrupted run made {urns.name_of(wanted.urn)}; found by its name as {found.id} and taken over",
            wanted.urn,
        )
