"""Replaces resources: the new one first, or the old one first with what cannot live without it.

Source: recordings, semantics §3.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from hermesops.engine.embedded.plugins.provider import Provider
from hermesops.engine.embedded.plugins.provider_pool import Providers
from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.goal import Goal
from hermesops.engine.embedded.protocol.rpc import ProviderFaultError
from hermesops.engine.embedded.protocol.values import UNKNOWN
from hermesops.engine.embedded.run.destroy_guard import refuse_unnamed
from hermesops.engine.embedded.run.events import Op, Step
from hermesops.engine.embedded.run.progress import Known
from hermesops.engine.embedded.run.resources.apply import Applier, Effects
from hermesops.engine.embedded.run.resources.check_and_diff import Questions
from hermesops.engine.embedded.run.resources.decide import Decision, Way
from hermesops.engine.embedded.run.resources.removal import delete_for_replacement
from hermesops.engine.embedded.run.targets import not_named
from hermesops.engine.embedded.state.deployment import Resource
from hermesops.engine.interface import MayDestroy


class Replacement:
    """The replacements of one run.

    Args:
        may_destroy: Whom the caller allows to be replaced; None allows everything.
        targets: URNs that may be touched; empty for all.
    """

    def __init__(
        self,
        applier: Applier,
        providers: Providers,
        known: Known,
        questions: Questions,
        *,
        may_destroy: MayDestroy | None,
        targets: Collection[str],
    ) -> None:
        self._applier = applier
        self._providers = providers
        self._known = known
        self._questions = questions
        self._may_destroy = may_destroy
        self._targets = targets
        self._wanted_gone: dict[str, Decision] = {}

    def allow(self, old: Resource) -> None:
        """Ask the guards whether a resource may be replaced.

        Raises:
            RefusedError: Nobody named it.
            StopRunError: It is protected.
        """
        refuse_unnamed([old], self._may_destroy)
        if not old.protect:
            return
        message = (
            f'unable to replace resource "{old.urn}"\nas it is currently marked for protection. To unprotect the '
            "resource, remove the `protect` flag from the resource in your Pulumi program and run `pulumi up`"
        )
        if not self._applier.dry:
            self._applier.fail(old.urn, message)
        self._applier.report(message + "\n", old.urn)

    async def new_first(
        self,
        goal: Goal,
        old: Resource,
        inputs: Mapping[str, Any],
        effects: Effects,
        decision: Decision,
        reference: str,
    ) -> Resource:
        """Make the new one; the old one is deleted when the program has ended."""
        journal = self._applier.journal
        new = await self._make(
            goal, inputs, effects, decision, reference, lambda: journal.swap(old, replace(old, delete=True))
        )
        self.say(decision.step(Op.REPLACE, goal.urn), new)
        return new

    async def old_first(
        self,
        goal: Goal,
        old: Resource,
        inputs: Mapping[str, Any],
        effects: Effects,
        decision: Decision,
        reference: str,
    ) -> Resource:
        """Delete the old one and what cannot live without it, then make the new one."""
        dependents = await self._dependents(old)
        refuse_unnamed(dependents, self._may_destroy)
        for dependent in dependents:
            if self._targets and dependent.urn not in self._targets:
                self._applier.fail(dependent.urn, not_named(dependent.urn))
            self.allow(dependent)
        async with self._applier.slots:
            *others, gone = await delete_for_replacement(self._applier, self._providers, [*reversed(dependents), old])
        for entry in others:
            self._known.olds[entry.urn] = entry
        self.say(decision.step(Op.REPLACE, goal.urn), gone)
        journal = self._applier.journal
        return await self._make(goal, inputs, effects, decision, reference, lambda: journal.move(gone, None))

    async def again(self, goal: Goal, gone: Resource, provider: Provider, effects: Effects, reference: str) -> Resource:
        """Make again what was deleted for a replacement, in this run or in one that did not get further."""
        decision = self._wanted_gone.get(goal.urn)
        if decision is None:
            checked = await self._questions.check(provider, goal, gone.inputs)
            decision = await self._questions.decide(goal, gone, checked, provider, reference)
            self.say(decision.step(Op.REPLACE, goal.urn), gone)
        else:
            self.say(Step(Op.REPLACE, goal.urn), gone)
        inputs = await self._questions.check(provider, goal, {})
        journal = self._applier.journal
        return await self._make(goal, inputs, effects, decision, reference, lambda: journal.move(gone, None))

    async def _make(
        self,
        goal: Goal,
        inputs: Mapping[str, Any],
        effects: Effects,
        decision: Decision,
        reference: str,
        recorded: Callable[[], None],
    ) -> Resource:
        """Make the new one; ``recorded`` settles in the same write what is left of the old one."""
        step = decision.step(Op.CREATE_REPLACEMENT, goal.urn)
        return await self._applier.create(goal, inputs, effects, provider=reference, step=step, recorded=recorded)

    def say(self, step: Step, new: Resource) -> None:
        """Tell the logical half of a replacement, which is the one that counts."""
        self._applier.events.step("pre", step, new.id)
        self._applier.finish(step, new)

    async def _dependents(self, root: Resource) -> list[Resource]:
        """Find what must be replaced with ``root``: what says so when the properties it has from it are unknown."""
        going = {root.urn}
        found: list[Resource] = []
        for resource in list(self._applier.journal.left):
            named = [k for k, needed in resource.property_dependencies.items() if going & set(needed)]
            if not named or resource.delete or not resource.custom or urns.is_provider(resource.type):
                continue
            news = {**resource.inputs, **{key: UNKNOWN for key in named if key in resource.inputs}}
            provider = await self._providers.of_state(resource.provider, self._applier.journal.resources)
            try:
                answer = await provider.diff(resource, news)
            except ProviderFaultError as fault:
                self._applier.fail_asking(resource.urn, fault)
            if answer.replaces:
                going.add(resource.urn)
                found.append(resource)
                self._wanted_gone[resource.urn] = Decision(Way.REPLACE_OLD_FIRST, keys=answer.replaces)
        return found
