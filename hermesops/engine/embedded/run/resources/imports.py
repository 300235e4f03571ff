"""Takes things that exist into the state: by the program's import option, or by hand.

Source: recordings, semantics §2 (import), ``import_option``, ``import_cli``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from hermesops.engine.embedded.plugins.provider import Provider
from hermesops.engine.embedded.protocol.answers import Found
from hermesops.engine.embedded.protocol.goal import Goal
from hermesops.engine.embedded.protocol.rpc import ProviderFaultError
from hermesops.engine.embedded.protocol.values import masked
from hermesops.engine.embedded.run.events import Op, Step
from hermesops.engine.embedded.run.resources.apply import Applier, Effects, StopRunError
from hermesops.engine.embedded.run.resources.check_and_diff import Questions
from hermesops.engine.embedded.run.resources.decide import Decision, Way
from hermesops.engine.embedded.run.resources.replace import Replacement
from hermesops.engine.embedded.state.deployment import Resource, differs
from hermesops.engine.embedded.state.timestamps import now


def is_import(goal: Goal, old: Resource | None) -> bool:
    """Whether the program names something by its id that the stack does not have yet."""
    return bool(goal.import_id) and (old is None or goal.import_id not in {old.id, old.import_id})


class Importer:
    """The imports of one run."""

    def __init__(self, applier: Applier, questions: Questions, replacement: Replacement) -> None:
        self._applier = applier
        self._questions = questions
        self._replacement = replacement

    async def register(
        self, goal: Goal, old: Resource | None, provider: Provider, effects: Effects, reference: str
    ) -> Resource:
        """Take in what a registration names, and bring it to what the program says it is."""
        if old is not None:
            self._replacement.allow(old)
        taken = await self.take(goal, old, provider, reference)
        inputs = await self.checked(goal, taken, provider)
        decision = await self._questions.decide(goal, taken, inputs, provider, reference)
        if decision.way is Way.SAME:
            return self._kept(taken, replace(taken, inputs=inputs))
        if decision.way is Way.UPDATE:
            return await self._applier.update(taken, goal, inputs, effects, decision, provider=reference)
        return self._applier.fail(goal.urn, no_replacement(decision, taken.inputs, inputs))

    async def checked(self, goal: Goal, taken: Resource, provider: Provider) -> dict[str, Any]:
        """Ask what the inputs of something just taken in mean."""
        return await self._questions.check(provider, goal, taken.inputs)

    async def take(self, goal: Goal, old: Resource | None, provider: Provider, reference: str) -> Resource:
        """Read a thing and write it down as this resource; ``old`` is what bore the name before and goes later.

        Raises:
            StopRunError: It does not exist, or could not be read.
        """
        step = Step(Op.IMPORT if old is None else Op.IMPORT_REPLACEMENT, goal.urn)
        at = now()
        bare = goal.resource(provider=reference, created=at, modified=at)
        async with self._applier.slots:
            self._applier.halt.check()
            self._applier.events.step("pre", step)
            taken = await self._read(step, bare, goal.import_id, provider, old)
        self._applier.finish(step, taken)
        if old is not None:
            self._replacement.say(Step(Op.REPLACE, goal.urn), taken)
        return taken

    async def _read(
        self, step: Step, bare: Resource, resource_id: str, provider: Provider, old: Resource | None
    ) -> Resource:
        journal = self._applier.journal
        operation = journal.begin("importing", bare)
        try:
            found = await provider.look_up(bare.urn, resource_id)
        except ProviderFaultError as fault:
            journal.end(operation)
            self._applier.fail_with(fault, step)
        if found is None:
            journal.end(operation)
            self._absent(step, resource_id)
        if old is not None:
            journal.swap(old, replace(old, delete=True))
        taken = self._as_read(bare, found)
        journal.end(operation, new=taken)
        return taken

    def _as_read(self, bare: Resource, found: Found) -> Resource:
        return self._applier.with_outputs(replace(bare, inputs=found.inputs), found.id, found.outputs)

    def _absent(self, step: Step, resource_id: str) -> NoReturn:
        message = f"resource '{resource_id}' does not exist"
        if not self._applier.dry:
            self._applier.fail(step.urn, message, step)
        self._applier.report(f"Preview failed: {message}\n", step.urn)
        self._applier.halt.stopped = True
        raise StopRunError

    def _kept(self, taken: Resource, new: Resource) -> Resource:
        self._applier.journal.swap(taken, new)
        if differs(taken, new):
            self._applier.journal.save()
        return new


def no_replacement(decision: Decision, olds: Mapping[str, Any], news: Mapping[str, Any]) -> str:
    """Say that what is imported is not replaced: the program still names the thing by its id."""
    changes = "".join(f"\n{key}: {{{masked(olds.get(key))}}} => {{{masked(news.get(key))}}}" for key in decision.keys)
    return (
        "previously-imported resources that still specify an ID may not be replaced; please remove the `import` "
        f"declaration from your program;{changes}"
    )
