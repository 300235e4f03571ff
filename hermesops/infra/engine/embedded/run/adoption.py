"""Adopts things that exist: imports, and creates that an interrupted run began.

Such creates are never repeated blindly: they are looked up by name, then adopted or forgotten. (The CLI repeats
them, and makes a second one: recordings, ``crash_cli:12``.)
Source: recordings, semantics §2 (import), ``import_option``.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from hermesops.errors import RefusedError
from hermesops.infra.engine.embedded.plugins.provider import Provider
from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.goal import Goal
from hermesops.infra.engine.embedded.protocol.plugin import Found, ProviderFaultError
from hermesops.infra.engine.embedded.protocol.values import masked
from hermesops.infra.engine.embedded.run.apply import Applier, with_outputs
from hermesops.infra.engine.embedded.run.decide import Decision, Way
from hermesops.infra.engine.embedded.run.events import Op, Step
from hermesops.infra.engine.embedded.run.replace import Replacement
from hermesops.infra.engine.embedded.state.deployment import Deployment, Resource, differs, now
from hermesops.model.stack import StackRef

UNSEEN = "made by an interrupted run; not observed as ready"
"""An init error makes the next step an update even where nothing differs, and the update waits until it is ready."""


def is_import(goal: Goal, old: Resource | None) -> bool:
    """Return whether the program gives an id for a resource that the stack does not have yet."""
    return bool(goal.import_id) and (old is None or goal.import_id not in {old.id, old.import_id})


class Importer:
    """Imports existing resources during one run."""

    def __init__(self, applier: Applier, replacement: Replacement) -> None:
        self._applier = applier
        self._replacement = replacement

    async def register(self, goal: Goal, old: Resource | None, provider: Provider) -> Resource:
        """Import the resource of a registration, and update it to the program's inputs."""
        if old is not None:
            self._replacement.allow(old)
        taken = await self.take(goal, old, provider)
        inputs = await self._applier.check(provider, goal, taken.inputs)
        decision = await self._applier.decide(goal, taken, inputs, provider)
        if decision.way is Way.UPDATE:
            return await self._applier.update(taken, goal, inputs, provider, decision)
        if decision.way is not Way.SAME:
            return self._applier.fail(goal.urn, no_replacement(decision, taken.inputs, inputs))
        imported = replace(taken, inputs=inputs)
        self._applier.journal.swap(taken, imported)
        if differs(taken, imported):
            self._applier.journal.save()
        return imported

    async def take(self, goal: Goal, old: Resource | None, provider: Provider) -> Resource:
        """Read an existing resource into the state; ``old`` had the name before and is deleted later.

        Raises:
            StopRunError: The resource does not exist, or was not readable.
        """
        step = Step(Op.IMPORT if old is None else Op.IMPORT_REPLACEMENT, goal.urn)
        at = now()
        bare = goal.resource(provider=provider.reference, created=at, modified=at)
        async with self._applier.slots:
            self._applier.check_running()
            self._applier.events.step("pre", step)
            taken = await self._read(step, bare, goal.import_id, provider, old)
        self._applier.finish(step, taken)
        if old is not None:
            self._replacement.report_replaced(Step(Op.REPLACE, goal.urn), taken)
        return taken

    async def _read(
        self, step: Step, bare: Resource, resource_id: str, provider: Provider, old: Resource | None
    ) -> Resource:
        applier, journal = self._applier, self._applier.journal
        operation = journal.begin("importing", bare)
        try:
            observed = await provider.read_id(bare.urn, resource_id)
        except ProviderFaultError as fault:
            journal.end(operation)
            applier.fail_with(fault, step.urn, step)
        if observed is None:
            journal.end(operation)
            message = f"resource '{resource_id}' does not exist"
            if not applier.dry:
                applier.fail(step.urn, message, step)
            applier.fail(step.urn, f"Preview failed: {message}")  # for which the CLI reports no failed step
        if old is not None:
            journal.swap(old, replace(old, delete=True))
        taken = with_outputs(replace(bare, inputs=observed.inputs), observed.id, observed.outputs)
        journal.end(operation, new=taken)
        return taken


def no_replacement(decision: Decision, olds: Mapping[str, Any], news: Mapping[str, Any]) -> str:
    """The message that an import is not replaced: the program still names the thing by its id."""
    changes = "".join(f"\n{key}: {{{masked(olds.get(key))}}} => {{{masked(news.get(key))}}}" for key in decision.keys)
    return (
        "previously-imported resources that still specify an ID may not be replaced; please remove the `import` "
        f"declaration from your program;{changes}"
    )


def stuck_in(deployment: Deployment) -> list[Resource]:
    """Creates of an interrupted run with an unknown outcome."""
    return [op.resource for op in deployment.pending if op.kind == "creating" and op.resource.is_external]


def refuse_unadoptable(ref: StackRef, before: Deployment, adopting: Collection[str]) -> None:
    """Refuse to continue if there are creates that cannot be looked up by name.

    Raises:
        RefusedError: There are such creates; names them and the commands that settle them.
    """
    stuck = [resource for resource in stuck_in(before) if urns.package_of(resource.type) not in adopting]
    if stuck:
        names = ", ".join(f"{urns.name_of(resource.urn)} ({resource.type})" for resource in stuck)
        raise RefusedError(
            f"an interrupted run began to create {names} and it is not known whether they exist",
            hint=f"delete them at their vendor if they exist, then run "
            f"`pulumi refresh --clear-pending-creates --stack {ref.stack}`",
        )


async def settle_creates(applier: Applier) -> None:
    """Settle the unconfirmed creates at the start of a run.

    Raises:
        StopRunError: One could not be looked up; the reason was reported.
    """
    journal = applier.journal
    for operation in [op for op in journal.pending if op.kind == "creating"]:
        resource = operation.resource
        if not resource.is_external:
            journal.pending.remove(operation)  # what no provider made does not exist anywhere
            continue
        try:
            provider = await applier.providers.of_state(resource.provider, or_default=True)
            observed = await provider.find_by_name(resource.urn, resource.inputs)
        except ProviderFaultError as fault:
            applier.fail_with(fault, resource.urn)
        journal.pending.remove(operation)
        name = urns.name_of(resource.urn)
        if observed is None or any(observed.id == old.id for old in journal.resources):
            applier.events.warning(
                f"an interrupted run began to create {name}; no new resource has its name", resource.urn
            )
        else:
            _take_over(applier, resource, observed)
            applier.events.warning(
                f"an interrupted run made {name}; found by its name as {observed.id} and taken over", resource.urn
            )
        journal.save()


def _take_over(applier: Applier, resource: Resource, observed: Found) -> None:
    journal = applier.journal
    for old in [r for r in journal.resources if r.urn == resource.urn and not r.delete]:
        if old.pending_replacement:
            journal.move(old, None)
        else:
            journal.swap(old, replace(old, delete=True))
    # Unprotected until the program that wants it runs. Otherwise an unwanted one could never be removed: it was in no
    # state when its protection should have been dropped.
    bare = replace(resource, inputs=observed.inputs, init_errors=observed.reasons or (UNSEEN,), protect=False)
    journal.left.append(with_outputs(bare, observed.id, observed.outputs))
