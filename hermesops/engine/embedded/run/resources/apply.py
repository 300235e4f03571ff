"""Does single steps: calls the provider, keeps the journal true, tells what happens. It decides nothing.

Every effect is written down before it is asked for and after it has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol, TypeVar

from hermesops.engine.embedded.protocol.goal import Goal
from hermesops.engine.embedded.protocol.rpc import ProviderFaultError, describe
from hermesops.engine.embedded.protocol.secret_outputs import with_secret_outputs
from hermesops.engine.embedded.run.events import Diagnostic, EventLog, Op, Step
from hermesops.engine.embedded.run.resources.decide import Decision
from hermesops.engine.embedded.state.deployment import Operation, Resource, differs
from hermesops.engine.embedded.state.journal import Journal
from hermesops.engine.embedded.state.timestamps import now

T = TypeVar("T")


class StopRunError(Exception):
    """The run goes no further; why has been told already."""


class Effects(Protocol):
    """What changes a resource: a provider plugin, or the engine itself for provider resources."""

    async def create(self, urn: str, inputs: Mapping[str, Any], *, preview: bool) -> tuple[str, dict[str, Any]]:
        """Make it; answers id and outputs."""

    async def update(self, old: Resource, inputs: Mapping[str, Any], *, preview: bool) -> dict[str, Any]:
        """Change it in place; answers the outputs."""


@dataclass
class Halt:
    """Whether the run still goes on, and what went wrong in it.

    Attributes:
        failures: What the engine itself reports; a program may log errors as it likes, as with the CLI.
    """

    stopped: bool = False
    failures: list[Diagnostic] = field(default_factory=list)
    faults: list[ProviderFaultError] = field(default_factory=list)

    def check(self) -> None:
        """Begin nothing new after a failure.

        Raises:
            StopRunError: Something failed before.
        """
        if self.stopped:
            raise StopRunError


@dataclass
class Applier:
    """Does the steps of one run.

    Attributes:
        slots: At most so many steps at once.
        finished: Every step that ended well, with the id it ended with.
    """

    journal: Journal
    events: EventLog
    halt: Halt
    slots: asyncio.Semaphore
    dry: bool
    finished: list[tuple[Step, str]] = field(default_factory=list)

    def fail(self, urn: str, message: str, step: Step | None = None) -> NoReturn:
        """Tell why a resource failed and stop the run."""
        self.tell_failure(urn, message, step)
        self.halt.stopped = True
        raise StopRunError

    def tell_failure(self, urn: str, message: str, step: Step | None = None) -> None:
        """Tell why a resource failed."""
        prefix = "Preview failed: " if self.dry and step else ""
        self.report(f"{prefix}{message}\n", urn)
        if step is not None:
            self.events.step("failed", step)

    def report(self, message: str, urn: str) -> None:
        """Tell an error that makes the run fail; it may still go on."""
        failure = Diagnostic("error", message, urn)
        self.halt.failures.append(failure)
        self.events.tell(failure)

    def fail_asking(self, urn: str, fault: ProviderFaultError) -> NoReturn:
        """Tell what a plugin said to a question, before any step was begun, and stop the run."""
        self.halt.faults.append(fault)
        self.fail(urn, fault.message)

    def finish(self, step: Step, resource: Resource, *, outputs: bool = True) -> None:
        """Tell that a step ended well."""
        self.finished.append((step, resource.id))
        if outputs:
            self.events.step("outputs", step, resource.id)

    def untouched(self, old: Resource) -> Resource:
        """Take over a resource that is no target, exactly as it was."""
        self.journal.move(old, old)
        self.unlisted(old)
        return old

    def unlisted(self, old: Resource) -> None:
        """Tell that a resource stays as it was and where it was."""
        step = Step(Op.SAME, old.urn)
        self.events.step("pre", step, old.id)
        self.finish(step, old, outputs=old.custom or self.dry)

    def same(self, old: Resource, new: Resource) -> Resource:
        """Take over a resource that stays as it is; written at once only if something stored differs."""
        step = Step(Op.SAME, new.urn)
        self.events.step("pre", step, old.id)
        kept = replace(new, id=old.id, outputs=old.outputs, created=old.created, modified=old.modified, other=old.other)
        self.journal.move(old, kept)
        if differs(old, kept):
            self.journal.save()
        self.finish(step, kept, outputs=kept.custom or self.dry)
        return kept

    def component(self, step: Step, goal: Goal, old: Resource | None) -> Resource:
        """Take up a component, which no provider knows: it exists by being written down."""
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
        effects: Effects,
        *,
        provider: str = "",
        step: Step | None = None,
        recorded: Callable[[], None] | None = None,
    ) -> Resource:
        """Make a resource with the provider of that reference.

        ``recorded`` changes the list in the same write that records the new resource.
        """
        step = step or Step(Op.CREATE, goal.urn)
        at = now()
        new = goal.resource(inputs=inputs, provider=provider, created=at, modified=at)
        async with self.slots:
            self.halt.check()
            self.events.step("pre", step)
            if self.dry:
                made = await self._previewed(step, effects.create(goal.urn, inputs, preview=True))
                new = self.with_outputs(new, *made)
                self.journal.move(None, new)
            else:
                new = await self._made(step, new, effects, recorded)
            if self.dry and recorded:
                recorded()
            self.finish(step, new)
        return new

    async def _made(self, step: Step, new: Resource, effects: Effects, recorded: Callable[[], None] | None) -> Resource:
        operation = self.journal.begin("creating", new)
        try:
            resource_id, outputs = await effects.create(new.urn, new.inputs, preview=False)
        except ProviderFaultError as fault:
            half = fault.half_made
            if half is not None:
                new = replace(self.with_outputs(new, half.id, half.properties), init_errors=half.reasons)
                if recorded:
                    recorded()
            self.journal.end(operation, new=new if half else None)
            self.fail_with(fault, step)
        new = self.with_outputs(new, resource_id, outputs)
        if recorded:
            recorded()
        self.journal.end(operation, new=new)
        return new

    async def update(
        self,
        old: Resource,
        goal: Goal,
        inputs: Mapping[str, Any],
        effects: Effects,
        decision: Decision,
        *,
        provider: str = "",
    ) -> Resource:
        """Change a resource in place."""
        step = decision.step(Op.UPDATE, goal.urn)
        new = goal.resource(inputs=inputs, provider=provider, created=old.created, modified=now(), other=old.other)
        async with self.slots:
            self.halt.check()
            self.events.step("pre", step, old.id)
            if self.dry:
                outputs = await self._previewed(step, effects.update(old, inputs, preview=True))
                new = self.with_outputs(new, old.id, outputs)
                self.journal.move(old, new)
            else:
                new = await self._changed(step, old, new, effects)
            self.finish(step, new)
        return new

    async def _changed(self, step: Step, old: Resource, new: Resource, effects: Effects) -> Resource:
        operation = self.journal.begin("updating", new)
        try:
            outputs = await effects.update(old, new.inputs, preview=False)
        except ProviderFaultError as fault:
            self._record_half_changed(operation, old, new, fault)
            self.fail_with(fault, step)
        new = self.with_outputs(new, old.id, outputs)
        self.journal.end(operation, old=old, new=new)
        return new

    def _record_half_changed(
        self, operation: Operation, old: Resource, new: Resource, fault: ProviderFaultError
    ) -> None:
        half = fault.half_made
        if half is None:
            self.journal.end(operation)
            return
        # Old inputs with new outputs: the next Diff then still sees what is missing.
        kept = self.with_outputs(replace(new, inputs=old.inputs), half.id or old.id, half.properties)
        self.journal.end(operation, old=old, new=replace(kept, init_errors=half.reasons))

    async def _previewed(self, step: Step, call: Awaitable[T]) -> T:
        try:
            return await call
        except ProviderFaultError as fault:
            self.fail_with(fault, step)

    def fail_with(self, fault: ProviderFaultError, step: Step) -> NoReturn:
        """Tell what a plugin said, and stop the run."""
        self.halt.faults.append(fault)
        self.fail(step.urn, describe(fault), step)

    @staticmethod
    def with_outputs(new: Resource, resource_id: str, outputs: Mapping[str, Any]) -> Resource:
        """The resource as its provider answered; what has to be secret is marked."""
        marked = with_secret_outputs(outputs, new.inputs, new.additional_secret_outputs)
        return replace(new, id=resource_id, outputs=marked)
