"""Carries out the program's registrations, one resource per call, and imports by hand.

Source: recordings, semantics §1-§3, ``targets``, ``import_cli``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hermesops.infra.engine.embedded.plugins.provider import Provider
from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.goal import Goal
from hermesops.infra.engine.embedded.protocol.plugin import ProviderFaultError
from hermesops.infra.engine.embedded.protocol.values import UNKNOWN, has_secret, revealed
from hermesops.infra.engine.embedded.run.adoption import Importer, is_import, no_replacement
from hermesops.infra.engine.embedded.run.apply import Applier
from hermesops.infra.engine.embedded.run.decide import Decision, Way
from hermesops.infra.engine.embedded.run.events import Op, Step
from hermesops.infra.engine.embedded.run.provider_resources import ProviderResources
from hermesops.infra.engine.embedded.run.replace import Replacement
from hermesops.infra.engine.embedded.state.deployment import Resource, differs
from hermesops.model.stack import Import


class Registrar:
    """Handles the registrations of one run; results are in ``known`` of the applier."""

    def __init__(self, applier: Applier) -> None:
        self._applier = applier
        self._known = applier.known
        self._ref = applier.journal.ref
        self._replacement = Replacement(applier)
        self._importer = Importer(applier, self._replacement)
        self._provider_resources = ProviderResources(applier, self._replacement)
        self._seen: set[str] = set()

    async def register(self, goal: Goal) -> Resource:
        """Make one resource match its registration.

        Raises:
            StopRunError: It failed; the reason was reported.
            RefusedError: It would destroy something that was not named.
        """
        self._applier.check_running()
        if goal.urn in self._seen:
            self._applier.fail(goal.urn, f"Duplicate resource URN '{goal.urn}'; try giving it a unique name")
        self._seen.add(goal.urn)
        news = self._known.news
        if urns.is_provider(goal.type):
            await self._provider_resources.register(goal)
        elif not self._applier.is_target(goal.urn) and (goal.type != urns.STACK_TYPE or goal.urn in self._known.olds):
            if goal.custom:
                await self._provider_resources.serving(goal)
            news[goal.urn] = self._not_targeted(goal)
        elif goal.custom:
            news[goal.urn] = await self._custom(goal)
        else:
            news[goal.urn] = self._component(goal)
        return news[goal.urn]

    def register_outputs(self, urn: str, outputs: Mapping[str, Any]) -> None:
        """Store the outputs of a component or the stack."""
        if urn in self._known.skipped:
            return
        old = self._known.news[urn]
        new = replace(old, outputs=outputs)
        if has_secret(dict(outputs)) and has_secret(dict(old.outputs)):
            revealed(dict(old.outputs), self._applier.journal.vault)  # an unopened secret equals nothing
        self._applier.journal.swap(old, new)
        self._known.news[urn] = new
        if differs(old, new):
            self._applier.journal.save()
        self._applier.events.step("outputs", self._known.steps.get(urn) or Step(Op.SAME, urn))

    def _component(self, goal: Goal) -> Resource:
        """Register a component or the stack itself, which have no provider."""
        old = self._known.olds.get(goal.urn)
        if old is not None and old.inputs == goal.properties:
            self._known.steps[goal.urn] = Step(Op.SAME, goal.urn)
            return self._applier.same(old, goal.resource(inputs=goal.properties))
        step = Step(Op.CREATE if old is None else Op.UPDATE, goal.urn)
        self._known.steps[goal.urn] = step
        return self._applier.component(step, goal, old)

    def _not_targeted(self, goal: Goal) -> Resource:
        """Leave a resource that is no target unchanged; one that does not exist is not made."""
        old = self._known.olds.get(goal.urn)
        if old is not None:
            return self._applier.untouched(old)
        self._known.skipped.add(goal.urn)
        step = Step(Op.SAME, goal.urn)
        none = goal.resource(id=UNKNOWN)
        self._applier.events.step("pre", step)
        self._applier.finish(step, none)
        return none

    async def _custom(self, goal: Goal) -> Resource:
        skipped = sorted(goal.resource().needs() & self._known.skipped)
        if skipped:
            self._applier.fail(
                goal.urn,
                f"Resource '{goal.urn}' depends on '{skipped[0]}' which was was not specified in --target list.",
            )
        provider = await self._provider_resources.serving(goal)
        old = self._known.olds.get(goal.urn)
        if is_import(goal, old):
            return await self._importer.register(goal, old, provider)
        if old is None:
            return await self._applier.create(goal, await self._applier.check(provider, goal, {}), provider)
        if old.pending_replacement:
            return await self._replacement.again(goal, old, provider)
        inputs = await self._applier.check(provider, goal, old.inputs)
        decision = await self._applier.decide(goal, old, inputs, provider)
        match decision.way:
            case Way.SAME:
                return self._applier.same(old, goal.resource(inputs=inputs, provider=provider.reference))
            case Way.UPDATE:
                return await self._applier.update(old, goal, inputs, provider, decision)
            case Way.REPLACE_NEW_FIRST | Way.REPLACE_OLD_FIRST:
                self._replacement.allow(old)
                self._refuse_imported(goal, old, inputs, decision)
                inputs = await self._applier.check(provider, goal, {})
                if decision.way is Way.REPLACE_NEW_FIRST:
                    return await self._replacement.new_first(goal, old, inputs, provider, decision)
                return await self._replacement.old_first(goal, old, inputs, provider, decision)

    def _refuse_imported(self, goal: Goal, old: Resource, inputs: Mapping[str, Any], decision: Decision) -> None:
        """A resource that the program still imports by id is not replaced; a preview continues with a warning."""
        if not goal.import_id:
            return
        message = no_replacement(decision, old.inputs, inputs)
        if not self._applier.dry:
            self._applier.fail(goal.urn, message)
        self._applier.events.warning(message + "\n", goal.urn)

    async def import_by_hand(self, imports: Sequence[Import]) -> None:
        """Import existing things into the stack, one after the other; those it has already stay unchanged.

        Raises:
            StopRunError: One does not exist, or its name is taken; those before it are imported.
        """
        for old in list(self._applier.journal.left):
            self._applier.report_unchanged(old)
        root = urns.stack_urn(self._ref)
        if root not in self._known.olds:
            stack = Goal(urn=root, type=urns.STACK_TYPE, name=urns.name_of(root), custom=False)
            self._known.news[root] = self._component(stack)
            self._applier.events.step("outputs", self._known.steps[root])
        for thing in imports:
            goal = Goal(
                urn=urns.urn_of(self._ref, thing.type, thing.name, root),
                type=thing.type,
                name=thing.name,
                custom=True,
                parent=root,
                protect=thing.protect,
                import_id=thing.id,
            )
            await self._import_one(goal)

    async def _import_one(self, goal: Goal) -> None:
        provider = await self._default_provider(goal)
        old = self._known.olds.get(goal.urn)
        if old is not None and old.id == goal.import_id:
            return
        if old is not None:
            self._applier.fail(goal.urn, f"the stack has another one of this name already: {old.id}")
        taken = await self._importer.take(goal, None, provider)
        inputs = await self._applier.check(provider, replace(goal, properties=taken.inputs), taken.inputs)
        self._applier.journal.swap(taken, replace(taken, inputs=inputs, import_id=""))
        self._applier.journal.save()

    async def _default_provider(self, goal: Goal) -> Provider:
        """The default provider of the package: the stack's own, or a new one."""
        old = self._known.olds.get(urns.default_provider_urn(self._ref, urns.package_of(goal.type)))
        if old is None:
            return await self._provider_resources.serving(goal)
        try:
            return await self._applier.providers.of_state(urns.reference(old.urn, old.id))
        except ProviderFaultError as fault:
            self._applier.fail_with(fault, goal.urn)
