"""Brings about what the program registers, one resource per call.

It asks the provider, lets :mod:`decide` choose, and has :mod:`apply` do it.
Source: recordings, semantics §1-§3.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from hermesops.engine.embedded.plugins.provider import Provider
from hermesops.engine.embedded.plugins.provider_pool import Providers
from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.goal import Goal
from hermesops.engine.embedded.protocol.values import UNKNOWN, has_secret, revealed
from hermesops.engine.embedded.run.events import Op, Step
from hermesops.engine.embedded.run.progress import Known
from hermesops.engine.embedded.run.resources.apply import Applier, Effects
from hermesops.engine.embedded.run.resources.check_and_diff import Questions
from hermesops.engine.embedded.run.resources.decide import Decision, Way
from hermesops.engine.embedded.run.resources.imports import Importer, is_import, no_replacement
from hermesops.engine.embedded.run.resources.provider_resources import ProviderResources
from hermesops.engine.embedded.run.resources.replace import Replacement
from hermesops.engine.embedded.run.targets import unmade
from hermesops.engine.embedded.state.deployment import Resource, differs
from hermesops.engine.interface import MayDestroy, StackConfig
from hermesops.model.stack import StackRef


class WithoutPreview:
    """Stands in for a plugin that cannot preview: what it would answer is not known."""

    async def create(self, _urn: str, inputs: Mapping[str, Any], *, preview: bool) -> tuple[str, dict[str, Any]]:
        """Answer the inputs."""
        del preview
        return "", dict(inputs)

    async def update(self, old: Resource, inputs: Mapping[str, Any], *, preview: bool) -> dict[str, Any]:
        """Answer the inputs."""
        del preview, old
        return dict(inputs)


class Registrar:
    """Handles the registrations of one run.

    Args:
        known: What the state has; what comes of the registrations is noted there.
        may_destroy: Whom the caller allows to be replaced; None allows everything.
        targets: URNs that may be touched; empty for all.
    """

    def __init__(
        self,
        ref: StackRef,
        *,
        known: Known,
        applier: Applier,
        providers: Providers,
        config: StackConfig,
        may_destroy: MayDestroy | None,
        targets: Collection[str],
    ) -> None:
        self._known = known
        self._applier = applier
        self._targets = targets
        self._questions = Questions(applier, known)
        self._replacement = Replacement(
            applier, providers, known, self._questions, may_destroy=may_destroy, targets=targets
        )
        self.importer = Importer(applier, self._questions, self._replacement)
        self.provider_resources = ProviderResources(
            ref,
            applier=applier,
            providers=providers,
            known=known,
            questions=self._questions,
            replacement=self._replacement,
            config=config,
        )
        self._seen: set[str] = set()

    async def register(self, goal: Goal) -> Resource:
        """Bring about one resource.

        Raises:
            StopRunError: It failed; why has been told.
            RefusedError: A guard said no.
        """
        self._applier.halt.check()
        if goal.urn in self._seen:
            self._applier.fail(goal.urn, f"Duplicate resource URN '{goal.urn}'; try giving it a unique name")
        self._seen.add(goal.urn)
        news = self._known.news
        if urns.is_provider(goal.type):
            await self.provider_resources.register(goal)
        elif self._is_left_alone(goal):
            if goal.custom:
                await self.provider_resources.serving(goal)
            news[goal.urn] = self._left_alone(goal)
        elif goal.custom:
            news[goal.urn] = await self._custom(goal)
        else:
            news[goal.urn] = self.component(goal)
        return news[goal.urn]

    def register_outputs(self, urn: str, outputs: Mapping[str, Any]) -> None:
        """Store what a component or the stack gives out."""
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

    def component(self, goal: Goal) -> Resource:
        """Bring about a component or the stack itself, which no provider knows."""
        old = self._known.olds.get(goal.urn)
        if old is not None and old.inputs == goal.properties:
            self._known.steps[goal.urn] = Step(Op.SAME, goal.urn)
            return self._applier.same(old, goal.resource(inputs=goal.properties))
        step = Step(Op.CREATE if old is None else Op.UPDATE, goal.urn)
        self._known.steps[goal.urn] = step
        return self._applier.component(step, goal, old)

    def _is_left_alone(self, goal: Goal) -> bool:
        if not self._targets or goal.urn in self._targets:
            return False
        return goal.type != urns.STACK_TYPE or goal.urn in self._known.olds

    def _left_alone(self, goal: Goal) -> Resource:
        """What is no target stays as it was; what is not there is not made."""
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
        self._refuse_unmade(goal)
        provider = await self.provider_resources.serving(goal)
        reference = urns.reference(provider.urn, provider.id or UNKNOWN)
        old = self._known.olds.get(goal.urn)
        effects: Effects = WithoutPreview() if self._applier.dry and not provider.previews else provider
        if is_import(goal, old):
            return await self.importer.register(goal, old, provider, effects, reference)
        if old is None:
            inputs = await self._questions.check(provider, goal, {})
            return await self._applier.create(goal, inputs, effects, provider=reference)
        if old.pending_replacement:
            return await self._replacement.again(goal, old, provider, effects, reference)
        inputs = await self._questions.check(provider, goal, old.inputs)
        decision = await self._questions.decide(goal, old, inputs, provider, reference)
        return await self._brought(goal, old, inputs, provider, effects, decision, reference)

    async def _brought(
        self,
        goal: Goal,
        old: Resource,
        inputs: dict[str, Any],
        provider: Provider,
        effects: Effects,
        decision: Decision,
        reference: str,
    ) -> Resource:
        match decision.way:
            case Way.SAME:
                return self._applier.same(old, goal.resource(inputs=inputs, provider=reference))
            case Way.UPDATE:
                return await self._applier.update(old, goal, inputs, effects, decision, provider=reference)
            case Way.REPLACE_NEW_FIRST | Way.REPLACE_OLD_FIRST:
                self._replacement.allow(old)
                self._refuse_imported(goal, old, inputs, decision)
                inputs = await self._questions.check(provider, goal, {})
                if decision.way is Way.REPLACE_NEW_FIRST:
                    return await self._replacement.new_first(goal, old, inputs, effects, decision, reference)
                return await self._replacement.old_first(goal, old, inputs, effects, decision, reference)

    def _refuse_imported(self, goal: Goal, old: Resource, inputs: Mapping[str, Any], decision: Decision) -> None:
        """What the program still imports by its id is not replaced; a preview goes on and says so."""
        if not goal.import_id:
            return
        message = no_replacement(decision, old.inputs, inputs)
        if not self._applier.dry:
            self._applier.fail(goal.urn, message)
        self._applier.events.warning(message + "\n", goal.urn)

    def _refuse_unmade(self, goal: Goal) -> None:
        """A target cannot be made of what was not made because it is none."""
        needed = sorted(goal.resource().needs() & self._known.skipped)
        if needed:
            self._applier.fail(goal.urn, unmade(goal.urn, needed[0]))
