"""Takes things that exist into the state.

Source: recordings, semantics §2 (import), ``import_option``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermesops.engine.embedded.plugins.provider import Provider
from hermesops.engine.embedded.protocol.goal import Goal
from hermesops.engine.embedded.protocol.plugin import ProviderFaultError
from hermesops.engine.embedded.protocol.values import masked
from hermesops.engine.embedded.run.apply import Applier, with_outputs
from hermesops.engine.embedded.run.decide import Decision, Way
from hermesops.engine.embedded.run.events import Op, Step
from hermesops.engine.embedded.run.replace import Replacement
from hermesops.engine.embedded.state.deployment import Resource, differs, now


def is_import(goal: Goal, old: Resource | None) -> bool:
    """Whether the program names something by its id that the stack does not have yet."""
    return bool(goal.import_id) and (old is None or goal.import_id not in {old.id, old.import_id})


class Importer:
    """The imports of one run."""

    def __init__(self, applier: Applier, replacement: Replacement) -> None:
        self._applier = applier
        self._replacement = replacement

    async def register(self, goal: Goal, old: Resource | None, provider: Provider) -> Resource:
        """Take in what a registration names, and bring it to what the program says it is."""
        if old is not None:
            self._replacement.allow(old)
        taken = await self.take(goal, old, provider)
        inputs = await self._applier.check(provider, goal, taken.inputs)
        decision = await self._applier.decide(goal, taken, inputs, provider)
        if decision.way is Way.UPDATE:
            return await self._applier.update(taken, goal, inputs, provider, decision)
        if decision.way is not Way.SAME:
            return self._applier.fail(goal.urn, no_replacement(decision, taken.inputs, inputs))
        kept = replace(taken, inputs=inputs)
        self._applier.journal.swap(taken, kept)
        if differs(taken, kept):
            self._applier.journal.save()
        return kept

    async def take(self, goal: Goal, old: Resource | None, provider: Provider) -> Resource:
        """Read a thing and write it down as this resource; ``old`` is what had the name before and goes later.

        Raises:
            StopRunError: It does not exist, or could not be read.
        """
        step = Step(Op.IMPORT if old is None else Op.IMPORT_REPLACEMENT, goal.urn)
        at = now()
        bare = goal.resource(provider=provider.reference, created=at, modified=at)
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
        applier, journal = self._applier, self._applier.journal
        operation = journal.begin("importing", bare)
        try:
            found = await provider.read_id(bare.urn, resource_id)
        except ProviderFaultError as fault:
            journal.end(operation)
            applier.fail_with(fault, step.urn, step)
        if found is None:
            journal.end(operation)
            message = f"resource '{resource_id}' does not exist"
            if not applier.dry:
                applier.fail(step.urn, message, step)
            applier.fail(step.urn, f"Preview failed: {message}")  # of which the CLI tells no failed step
        if old is not None:
            journal.swap(old, replace(old, delete=True))
        taken = with_outputs(replace(bare, inputs=found.inputs), found.id, found.outputs)
        journal.end(operation, new=taken)
        return taken


def no_replacement(decision: Decision, olds: Mapping[str, Any], news: Mapping[str, Any]) -> str:
    """The message that an import is not replaced: the program still names the thing by its id."""
    changes = "".join(f"\n{key}: {{{masked(olds.get(key))}}} => {{{masked(news.get(key))}}}" for key in decision.keys)
    return (
        "previously-imported resources that still specify an ID may not be replaced; please remove the `import` "
        f"declaration from your program;{changes}"
    )
