"""Replaces resources: the new one first, or the old one and its dependents first.

Source: recordings, semantics §3.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermesops.infra.engine.embedded.plugins.provider import Provider
from hermesops.infra.engine.embedded.protocol.goal import Goal
from hermesops.infra.engine.embedded.protocol.plugin import ProviderFaultError
from hermesops.infra.engine.embedded.protocol.values import UNKNOWN
from hermesops.infra.engine.embedded.run.apply import Applier
from hermesops.infra.engine.embedded.run.decide import Decision, Way
from hermesops.infra.engine.embedded.run.events import Op, Step
from hermesops.infra.engine.embedded.run.removal import delete_for_replacement, not_named
from hermesops.infra.engine.embedded.state.deployment import Resource


class Replacement:
    """Replaces resources during one run of the engine."""

    def __init__(self, applier: Applier) -> None:
        self._applier = applier
        self._wanted_gone: dict[str, Decision] = {}

    def allow(self, old: Resource) -> None:
        """Refuse to replace a resource that was not named or is protected.

        Raises:
            RefusedError: It was not named.
            StopRunError: It is protected.
        """
        self._applier.refuse_unnamed([old])
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
        self, goal: Goal, old: Resource, inputs: Mapping[str, Any], provider: Provider, decision: Decision
    ) -> Resource:
        """Make the new one; the old one is deleted when the program has ended."""
        journal = self._applier.journal
        new = await self._applier.create(
            goal,
            inputs,
            provider,
            step=decision.step(Op.CREATE_REPLACEMENT, goal.urn),
            recorded=lambda: journal.swap(old, replace(old, delete=True)),
        )
        self.report_replaced(decision.step(Op.REPLACE, goal.urn), new)
        return new

    async def old_first(
        self, goal: Goal, old: Resource, inputs: Mapping[str, Any], provider: Provider, decision: Decision
    ) -> Resource:
        """Delete the old resource and its dependents, then make the new one."""
        applier = self._applier
        dependents = await self._dependents(old)
        applier.refuse_unnamed(dependents)
        for dependent in dependents:
            if not applier.is_target(dependent.urn):
                applier.fail(dependent.urn, not_named(dependent.urn))
            self.allow(dependent)
        async with applier.slots:
            *others, gone = await delete_for_replacement(applier, [*reversed(dependents), old])
        for entry in others:
            applier.known.olds[entry.urn] = entry
        self.report_replaced(decision.step(Op.REPLACE, goal.urn), gone)
        return await self._made_after(goal, gone, inputs, provider, decision)

    async def again(self, goal: Goal, gone: Resource, provider: Provider) -> Resource:
        """Make a resource that was deleted for a replacement, in this run or an interrupted one."""
        decision = self._wanted_gone.get(goal.urn)
        if decision is None:
            checked = await self._applier.check(provider, goal, gone.inputs)
            decision = await self._applier.decide(goal, gone, checked, provider)
            self.report_replaced(decision.step(Op.REPLACE, goal.urn), gone)
        else:
            self.report_replaced(Step(Op.REPLACE, goal.urn), gone)
        inputs = await self._applier.check(provider, goal, {})
        return await self._made_after(goal, gone, inputs, provider, decision)

    async def _made_after(
        self, goal: Goal, gone: Resource, inputs: Mapping[str, Any], provider: Provider, decision: Decision
    ) -> Resource:
        """Make the new one; the same write removes the deleted one from the list."""
        journal = self._applier.journal
        step = decision.step(Op.CREATE_REPLACEMENT, goal.urn)
        return await self._applier.create(goal, inputs, provider, step=step, recorded=lambda: journal.move(gone, None))

    def report_replaced(self, step: Step, new: Resource) -> None:
        """Report the logical half of a replacement, which counts use."""
        self._applier.events.step("pre", step, new.id)
        self._applier.finish(step, new)

    async def _dependents(self, root: Resource) -> list[Resource]:
        """Find the resources to replace with ``root``: those that need it when its outputs are unknown."""
        going = {root.urn}
        dependents: list[Resource] = []
        for resource in list(self._applier.journal.left):
            named = [k for k, needed in resource.property_dependencies.items() if going & set(needed)]
            if not named or resource.delete or not resource.is_external:
                continue
            news = {**resource.inputs, **{key: UNKNOWN for key in named if key in resource.inputs}}
            provider = await self._applier.providers.of_state(resource.provider)
            try:
                answer = await provider.diff(resource, news)
            except ProviderFaultError as fault:
                self._applier.fail_with(fault, resource.urn)
            if answer.replaces:
                going.add(resource.urn)
                dependents.append(resource)
                self._wanted_gone[resource.urn] = Decision(Way.REPLACE_OLD_FIRST, keys=answer.replaces)
        return dependents
