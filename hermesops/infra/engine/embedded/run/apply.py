"""Does single steps: calls the provider, saves the journal, reports events.

Every effect is recorded before its call and after its end.
Source: recordings, semantics §2, §7.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from hermesops.infra.engine.embedded.plugins.provider import Provider
from hermesops.infra.engine.embedded.plugins.provider_pool import Providers
from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.goal import Goal
from hermesops.infra.engine.embedded.protocol.plugin import Problem, ProviderFaultError, describe
from hermesops.infra.engine.embedded.protocol.values import masked, with_secret_outputs
from hermesops.infra.engine.embedded.run.decide import Decision, Way, decide
from hermesops.infra.engine.embedded.run.events import Diagnostic, EventLog, Op, Step
from hermesops.infra.engine.embedded.state.deployment import Resource, differs, now
from hermesops.infra.engine.embedded.state.journal import Journal
from hermesops.infra.engine.options import RunOptions, destroy_refusal


class StopRunError(Exception):
    """The run stops; the reason was reported already."""


@dataclass
class Known:
    """The resources of one run, by URN.

    Attributes:
        olds: Resources of the state, without old halves of replacements.
        news: Resources that the program has registered, as they are now.
        steps: Steps of components, which end with their outputs.
        skipped: Registered resources that the state lacks and no target names: they were not made.
    """

    olds: dict[str, Resource] = field(default_factory=dict)
    news: dict[str, Resource] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)


@dataclass
class Applier:
    """Does the steps of one run.

    Attributes:
        parallel: Largest number of steps at once.
        dry: True for a preview, which changes nothing.
        finished: Every successful step, with the id of its resource.
        stopped: True after a failure, or if the caller wants an end: no new step begins.
        failures: Errors of the engine itself; a program may log errors as it likes, as with the CLI.
    """

    journal: Journal
    events: EventLog
    providers: Providers
    options: RunOptions
    parallel: int
    dry: bool
    known: Known = field(default_factory=Known)
    finished: list[tuple[Step, str]] = field(default_factory=list)
    stopped: bool = False
    failures: list[Diagnostic] = field(default_factory=list)
    faults: list[ProviderFaultError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(self.parallel)

    def is_target(self, urn: str) -> bool:
        """Return whether the run may touch a resource."""
        return not self.options.targets or urn in self.options.targets

    def refuse_unnamed(self, victims: Iterable[Resource]) -> None:
        """Refuse to destroy resources that nobody named.

        Raises:
            RefusedError: Lists these resources.
        """
        may_destroy = self.options.may_destroy
        if may_destroy is None:
            return
        unnamed = sorted({victim.urn for victim in victims if victim.is_external and not may_destroy(victim.urn)})
        if unnamed:
            raise destroy_refusal([f"{urns.name_of(urn)} ({urns.type_of(urn)})" for urn in unnamed])

    def check_running(self) -> None:
        """Begin nothing new after a failure.

        Raises:
            StopRunError: Something failed before.
        """
        if self.stopped:
            raise StopRunError

    def stop(self) -> NoReturn:
        """Stop the run; the reason was reported."""
        self.stopped = True
        raise StopRunError

    def fail(self, urn: str, message: str, step: Step | None = None) -> NoReturn:
        """Report why a resource failed and stop the run."""
        self.report_failure(urn, message, step)
        self.stop()

    def fail_with(self, fault: ProviderFaultError, urn: str, step: Step | None = None) -> NoReturn:
        """Report a plugin's error, in a query or in a begun step, and stop the run."""
        self.faults.append(fault)
        self.fail(urn, describe(fault), step)

    def report_failure(self, urn: str, message: str, step: Step | None = None) -> None:
        """Report the reason of a resource's failure as an error event."""
        prefix = "Preview failed: " if self.dry and step else ""
        self.report(f"{prefix}{message}\n", urn)
        if step is not None:
            self.events.step("failed", step)

    def report(self, message: str, urn: str) -> None:
        """Report an error that makes the run fail; the run may continue."""
        failure = Diagnostic("error", message, urn)
        self.failures.append(failure)
        self.events.report(failure)

    def finish(self, step: Step, resource: Resource, *, outputs: bool = True) -> None:
        """Report a successful step, and count it."""
        self.finished.append((step, resource.id))
        if outputs:
            self.events.step("outputs", step, resource.id)

    async def check(self, provider: Provider, goal: Goal, olds: Mapping[str, Any]) -> dict[str, Any]:
        """Have the provider check the wanted inputs.

        Raises:
            StopRunError: They are refused; the reason was reported.
        """
        try:
            inputs, problems = await provider.check(goal.urn, olds, goal.properties)
        except ProviderFaultError as fault:
            self.fail_with(fault, goal.urn)
        self.refuse(goal, problems)
        return inputs

    def refuse(self, goal: Goal, problems: list[Problem]) -> None:
        """Stop the run if there are problems; each is reported."""
        for problem in problems:
            message = f"{goal.type} resource '{goal.name}'"
            if problem.property:
                message += f": property {problem.property} value {{{masked(goal.properties.get(problem.property))}}}"
            self.report_failure(goal.urn, f"{message} has a problem: {problem.reason}")
        if problems:
            self.stop()

    async def decide(self, goal: Goal, old: Resource, inputs: Mapping[str, Any], provider: Provider) -> Decision:
        """Ask the provider for differences, and choose the step."""
        try:
            if await self._needs_new_provider(old, provider):
                return Decision(Way.REPLACE_NEW_FIRST, keys=("provider",))
            difference = await provider.diff(old, inputs)
        except ProviderFaultError as fault:
            self.fail_with(fault, goal.urn)
        return decide(old, inputs, difference, delete_first=goal.delete_first)

    async def _needs_new_provider(self, old: Resource, provider: Provider) -> bool:
        """Return whether the new provider cannot take over a resource of the old one; asks the new one."""
        if old.provider == provider.reference or not old.provider:
            return False
        reference = urns.split_reference(old.provider)
        before = next((r for r in self.journal.resources if (r.urn, r.id) == reference), None)
        after = self.known.news.get(provider.urn)
        if before is None or after is None or urns.package_of(before.type) != urns.package_of(after.type):
            return False
        return bool((await provider.diff_config(before, after.inputs)).replaces)

    def untouched(self, old: Resource) -> Resource:
        """Take over a resource that is no target, exactly as it was."""
        self.journal.move(old, old)
        self.report_unchanged(old)
        return old

    def report_unchanged(self, old: Resource) -> None:
        """Report that a resource is unchanged."""
        step = Step(Op.SAME, old.urn)
        self.events.step("pre", step, old.id)
        self.finish(step, old, outputs=old.custom or self.dry)

    def same(self, old: Resource, new: Resource) -> Resource:
        """Keep an unchanged resource; written at once only if something stored differs."""
        step = Step(Op.SAME, new.urn)
        self.events.step("pre", step, old.id)
        unchanged = replace(
            new, id=old.id, outputs=old.outputs, created=old.created, modified=old.modified, other=old.other
        )
        self.journal.move(old, unchanged)
        if differs(old, unchanged):
            self.journal.save()
        self.finish(step, unchanged, outputs=unchanged.custom or self.dry)
        return unchanged

    def component(self, step: Step, goal: Goal, old: Resource | None) -> Resource:
        """Record a component, which has no provider: it exists only in the state."""
        at = now()
        new = goal.resource(inputs=goal.properties, created=old.created if old else at, modified=at)
        if old is not None:
            new = replace(new, outputs=old.outputs, other=old.other)
        self.events.step("pre", step)
        operation = self.journal.begin("updating" if old else "creating", replace(new, outputs={}))
        self.journal.end(operation, old=old, new=new)
        self.finish(step, new, outputs=self.dry)
        return new

    async def create(
        self,
        goal: Goal,
        inputs: Mapping[str, Any],
        provider: Provider,
        *,
        step: Step | None = None,
        recorded: Callable[[], None] = lambda: None,
    ) -> Resource:
        """Create a resource at its provider and record it in the state.

        ``recorded`` changes the list in the same write that records the new resource.
        """
        step = step or Step(Op.CREATE, goal.urn)
        at = now()
        new = goal.resource(inputs=inputs, provider=provider.reference_for(goal.urn), created=at, modified=at)
        async with self.slots:
            self.check_running()
            self.events.step("pre", step)
            operation = self.journal.begin("creating", new)
            try:
                created = await provider.create(goal.urn, inputs, preview=self.dry)
            except ProviderFaultError as fault:
                half, half_made = fault.half_made, None
                if half and not self.dry:
                    half_made = replace(with_outputs(new, half.id, half.properties), init_errors=half.reasons)
                    recorded()
                self.journal.end(operation, new=half_made)
                self.fail_with(fault, goal.urn, step)
            new = with_outputs(new, *created)
            recorded()
            self.journal.end(operation, new=new)
            self.finish(step, new)
        return new

    async def update(
        self, old: Resource, goal: Goal, inputs: Mapping[str, Any], provider: Provider, decision: Decision
    ) -> Resource:
        """Change a resource in place, at its provider and in the state."""
        step = decision.step(Op.UPDATE, goal.urn)
        reference = provider.reference_for(goal.urn)
        new = goal.resource(inputs=inputs, provider=reference, created=old.created, modified=now(), other=old.other)
        async with self.slots:
            self.check_running()
            self.events.step("pre", step, old.id)
            operation = self.journal.begin("updating", new)
            try:
                outputs = await provider.update(old, inputs, preview=self.dry)
            except ProviderFaultError as fault:
                half = fault.half_made
                if half and not self.dry:
                    # Old inputs with new outputs: the next Diff then still sees what is missing.
                    half_changed = with_outputs(replace(new, inputs=old.inputs), half.id or old.id, half.properties)
                    self.journal.end(operation, old=old, new=replace(half_changed, init_errors=half.reasons))
                else:
                    self.journal.end(operation)
                self.fail_with(fault, goal.urn, step)
            new = with_outputs(new, old.id, outputs)
            self.journal.end(operation, old=old, new=new)
            self.finish(step, new)
        return new


def with_outputs(new: Resource, resource_id: str, outputs: Mapping[str, Any]) -> Resource:
    """Return the resource with the provider's outputs; those that must be secret are marked."""
    marked = with_secret_outputs(outputs, new.inputs, new.additional_secret_outputs)
    return replace(new, id=resource_id, outputs=marked)
