"""Brings about what the program registers, one resource per call.

It asks the provider, lets :mod:`decide` choose, and has :mod:`apply` do it.
Source: recordings, semantics §1-§3.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermesops.engine.embedded import urns
from hermesops.engine.embedded.apply import Applier, Effects, differs
from hermesops.engine.embedded.decide import Decision, Way, decide
from hermesops.engine.embedded.events import Op, Step
from hermesops.engine.embedded.goal import Goal
from hermesops.engine.embedded.guard import refuse_unnamed
from hermesops.engine.embedded.provider import Difference, Differs, Problem, Provider
from hermesops.engine.embedded.providers import Providers, new_id
from hermesops.engine.embedded.removal import delete_for_replacement
from hermesops.engine.embedded.rpc import ProviderFaultError
from hermesops.engine.embedded.state import Resource
from hermesops.engine.embedded.values import UNKNOWN, Secret, has_secret, is_unknown, masked, revealed
from hermesops.engine.interface import MayDestroy, StackConfig
from hermesops.model.stack import StackRef


class OfProvider:
    """Provider resources have no plugin call that makes or changes them; their outputs are their inputs."""

    async def create(self, _urn: str, inputs: Mapping[str, Any], *, preview: bool) -> tuple[str, dict[str, Any]]:
        """Give it an id."""
        return UNKNOWN if preview else new_id(), dict(inputs)

    async def update(self, _old: Resource, inputs: Mapping[str, Any], *, preview: bool) -> dict[str, Any]:
        """Take over the new settings."""
        del preview
        return dict(inputs)


class WithoutPreview:
    """Stands in for a plugin that cannot preview: what it would answer is not known."""

    async def create(self, _urn: str, inputs: Mapping[str, Any], *, preview: bool) -> tuple[str, dict[str, Any]]:
        """Answer the inputs."""
        del preview
        return "", dict(inputs)

    async def update(self, old: Resource, inputs: Mapping[str, Any], *, preview: bool) -> dict[str, Any]:
        """Answer the inputs over what is known."""
        del preview, old
        return dict(inputs)


class Registrar:
    """Handles the registrations of one run.

    Args:
        olds: The state at the start.
        may_destroy: Whom the caller allows to be replaced; None allows everything.
    """

    def __init__(
        self,
        ref: StackRef,
        *,
        olds: tuple[Resource, ...],
        applier: Applier,
        providers: Providers,
        config: StackConfig,
        may_destroy: MayDestroy | None,
    ) -> None:
        self._ref = ref
        self._applier = applier
        self._providers = providers
        self._config = config
        self._may_destroy = may_destroy
        self._olds = {old.urn: old for old in olds if not old.delete}
        self._news: dict[str, Resource] = {}
        self._steps: dict[str, Step] = {}
        self._defaults: dict[str, asyncio.Task[Provider]] = {}
        self._seen: set[str] = set()
        self._wanted_gone: dict[str, Decision] = {}
        self._protected = False

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
        if urns.is_provider(goal.type):
            await self._provider_resource(goal)
        elif goal.custom:
            self._news[goal.urn] = await self._custom(goal)
        else:
            self._news[goal.urn] = await self._component(goal)
        return self._news[goal.urn]

    def register_outputs(self, urn: str, outputs: Mapping[str, Any]) -> None:
        """Store what a component or the stack gives out."""
        old = self._news[urn]
        new = replace(old, outputs=outputs)
        if has_secret(dict(outputs)) and has_secret(dict(old.outputs)):
            revealed(dict(old.outputs), self._applier.journal.vault)  # an unopened secret equals nothing
        self._applier.journal.swap(old, new)
        self._news[urn] = new
        if differs(old, new):
            self._applier.journal.save()
        self._applier.events.step("outputs", self._steps.get(urn) or Step(Op.SAME, urn))

    def knows(self, urn: str) -> bool:
        """Whether this run has brought about that resource."""
        return urn in self._news

    def outputs_of(self, urn: str) -> Mapping[str, Any]:
        """What was stored under a URN in this run."""
        return self._news[urn].outputs if urn in self._news else {}

    async def _component(self, goal: Goal) -> Resource:
        old = self._olds.get(goal.urn)
        applier = self._applier
        if old is not None and old.inputs == goal.properties:
            self._steps[goal.urn] = Step(Op.SAME, goal.urn)
            return applier.same(old, goal.resource(inputs=goal.properties))
        op = Op.CREATE if old is None else Op.UPDATE
        step = Step(op, goal.urn)
        self._steps[goal.urn] = step
        return applier.component(step, goal, old)

    async def _custom(self, goal: Goal) -> Resource:
        try:
            provider = await self._provider_for(goal)
            await self._providers.usable(provider)
        except ProviderFaultError as fault:
            self._applier.halt.faults.append(fault)
            self._applier.fail(goal.urn, fault.message)
        reference = urns.reference(provider.urn, provider.id or UNKNOWN)
        old = self._olds.get(goal.urn)
        effects: Effects = WithoutPreview() if self._applier.dry and not provider.previews else provider
        if old is None:
            inputs = await self._check(provider, goal, {})
            return await self._applier.create(goal, inputs, effects, provider=reference)
        if old.pending_replacement:
            return await self._recreate(goal, old, provider, effects, reference)
        inputs = await self._check(provider, goal, old.inputs)
        decision = await self._decide(goal, old, inputs, provider, reference)
        match decision.way:
            case Way.SAME:
                return self._applier.same(old, goal.resource(inputs=inputs, provider=reference))
            case Way.UPDATE:
                return await self._applier.update(old, goal, inputs, effects, decision, provider=reference)
            case Way.REPLACE_NEW_FIRST | Way.REPLACE_OLD_FIRST:
                self._may_replace(old)
                inputs = await self._check(provider, goal, {})
                if decision.way is Way.REPLACE_NEW_FIRST:
                    return await self._new_first(goal, old, inputs, effects, decision, reference)
                return await self._old_first(goal, old, inputs, effects, decision, reference)

    async def _check(self, provider: Provider, goal: Goal, olds: Mapping[str, Any]) -> dict[str, Any]:
        try:
            inputs, problems = await provider.check(goal.urn, olds, goal.properties)
        except ProviderFaultError as fault:
            self._applier.halt.faults.append(fault)
            self._applier.fail(goal.urn, fault.message)
        self._refuse_inputs(goal, goal.properties, problems)
        return inputs

    def _refuse_inputs(self, goal: Goal, given: Mapping[str, Any], problems: list[Problem]) -> None:
        if not problems:
            return
        about = f"{goal.type} resource '{goal.name}'"
        for problem in problems[:-1]:
            self._applier.tell_failure(goal.urn, _problem(about, given, problem))
        self._applier.fail(goal.urn, _problem(about, given, problems[-1]))

    async def _decide(
        self, goal: Goal, old: Resource, inputs: Mapping[str, Any], provider: Provider, reference: str
    ) -> Decision:
        try:
            if await self._needs_new_provider(old, provider, reference):
                return Decision(Way.REPLACE_NEW_FIRST, keys=("provider",))
            difference = await provider.diff(old, inputs)
        except ProviderFaultError as fault:
            self._applier.halt.faults.append(fault)
            self._applier.fail(goal.urn, fault.message)
        return decide(old, inputs, difference, delete_first=goal.delete_first)

    async def _needs_new_provider(self, old: Resource, provider: Provider, reference: str) -> bool:
        """Whether what the old provider made cannot be taken over by the new one; the new one is asked."""
        if old.provider == reference or not old.provider:
            return False
        old_urn, old_id = urns.split_reference(old.provider)
        before = next((r for r in self._applier.journal.resources if r.urn == old_urn and r.id == old_id), None)
        after = self._news.get(provider.urn)
        if before is None or after is None or urns.package_of(before.type) != urns.package_of(after.type):
            return False
        answer = await provider.diff_config(before.inputs, before.outputs, after.inputs)
        return bool(answer.replaces)

    def _may_replace(self, old: Resource) -> None:
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

    async def _new_first(
        self,
        goal: Goal,
        old: Resource,
        inputs: Mapping[str, Any],
        effects: Effects,
        decision: Decision,
        reference: str,
    ) -> Resource:
        journal = self._applier.journal
        new = await self._applier.create(
            goal,
            inputs,
            effects,
            provider=reference,
            step=decision.step(Op.CREATE_REPLACEMENT, goal.urn),
            recorded=lambda: journal.swap(old, replace(old, delete=True)),
        )
        self._say_replaced(decision.step(Op.REPLACE, goal.urn), new)
        return new

    async def _old_first(
        self,
        goal: Goal,
        old: Resource,
        inputs: Mapping[str, Any],
        effects: Effects,
        decision: Decision,
        reference: str,
    ) -> Resource:
        dependents = await self._replaced_dependents(old)
        refuse_unnamed(dependents, self._may_destroy)
        for dependent in dependents:
            self._may_replace(dependent)
        async with self._applier.slots:
            *others, gone = await delete_for_replacement(self._applier, self._providers, [*reversed(dependents), old])
        for entry in others:
            self._olds[entry.urn] = entry
        self._say_replaced(decision.step(Op.REPLACE, goal.urn), gone)
        return await self._applier.create(
            goal,
            inputs,
            effects,
            provider=reference,
            step=decision.step(Op.CREATE_REPLACEMENT, goal.urn),
            recorded=lambda: self._applier.journal.move(gone, None),
        )

    async def _replaced_dependents(self, root: Resource) -> list[Resource]:
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
                self._applier.halt.faults.append(fault)
                self._applier.fail(resource.urn, fault.message)
            if answer.replaces:
                going.add(resource.urn)
                found.append(resource)
                self._wanted_gone[resource.urn] = Decision(Way.REPLACE_OLD_FIRST, keys=answer.replaces)
        return found

    async def _recreate(
        self, goal: Goal, gone: Resource, provider: Provider, effects: Effects, reference: str
    ) -> Resource:
        """Make again what was deleted for a replacement, in this run or in one that did not get further."""
        decision = self._wanted_gone.get(goal.urn)
        if decision is None:
            checked = await self._check(provider, goal, gone.inputs)
            decision = await self._decide(goal, gone, checked, provider, reference)
            self._say_replaced(decision.step(Op.REPLACE, goal.urn), gone)
        else:
            self._say_replaced(Step(Op.REPLACE, goal.urn), gone)
        inputs = await self._check(provider, goal, {})
        return await self._applier.create(
            goal,
            inputs,
            effects,
            provider=reference,
            step=decision.step(Op.CREATE_REPLACEMENT, goal.urn),
            recorded=lambda: self._applier.journal.move(gone, None),
        )

    def _say_replaced(self, step: Step, new: Resource) -> None:
        self._applier.events.step("pre", step, new.id)
        self._applier.finish(step, new)

    async def _provider_for(self, goal: Goal) -> Provider:
        if goal.provider:
            urn, _ = urns.split_reference(goal.provider)
            explicit = self._providers.current(urn)
            if explicit is None:
                raise ProviderFaultError("FAILED_PRECONDITION", f"the program names a provider it did not make: {urn}")
            return explicit
        package = urns.package_of(goal.type)
        if package not in self._defaults:
            self._defaults[package] = asyncio.create_task(self._default_provider(package))
        return await asyncio.shield(self._defaults[package])

    async def _default_provider(self, package: str) -> Provider:
        urn = urns.default_provider_urn(self._ref, package)
        prefix = f"{package}:"
        settings: dict[str, Any] = {
            key[len(prefix) :]: Secret(value) if key in self._config.secret else value
            for key, value in self._config.values.items()
            if key.startswith(prefix)
        }
        goal = Goal(urn=urn, type=urns.type_of(urn), name="default", custom=True, properties=settings)
        return await self._provider_resource(goal)

    async def _provider_resource(self, goal: Goal) -> Provider:
        old = self._olds.get(goal.urn)
        try:
            provider = await self._providers.launch(goal.urn)
            inputs = await self._check_config(provider, goal, old.inputs if old else {})
            if old is None:
                new = await self._applier.create(goal, inputs, OfProvider())
            else:
                provider, new = await self._changed_provider(goal, old, provider, inputs)
        except ProviderFaultError as fault:
            self._applier.halt.faults.append(fault)
            self._applier.fail(goal.urn, fault.message)
        self._news[goal.urn] = new
        self._providers.configure(provider, new.inputs, resource_id="" if is_unknown(new.id) else new.id)
        return provider

    async def _check_config(self, provider: Provider, goal: Goal, olds: Mapping[str, Any]) -> dict[str, Any]:
        inputs, problems = await provider.check_config(olds, goal.properties)
        self._refuse_inputs(goal, goal.properties, problems)
        return inputs

    async def _changed_provider(
        self, goal: Goal, old: Resource, provider: Provider, inputs: dict[str, Any]
    ) -> tuple[Provider, Resource]:
        answer = await provider.diff_config(old.inputs, old.outputs, inputs)
        if answer.differs is Differs.UNKNOWN:
            answer = Difference(Differs.UNKNOWN)
        decision = decide(old, inputs, answer, delete_first=False)
        match decision.way:
            case Way.SAME:
                return provider, self._applier.same(old, goal.resource(inputs=inputs))
            case Way.UPDATE:
                return provider, await self._applier.update(old, goal, inputs, OfProvider(), decision)
            case Way.REPLACE_NEW_FIRST | Way.REPLACE_OLD_FIRST:
                await self._providers.retire(provider)
                fresh = await self._providers.launch(goal.urn)
                inputs = await self._check_config(fresh, goal, {})
                return fresh, await self._new_first(goal, old, inputs, OfProvider(), decision, "")


def _problem(about: str, given: Mapping[str, Any], problem: Problem) -> str:
    if not problem.property:
        return f"{about} has a problem: {problem.reason}"
    value = masked(given.get(problem.property))
    return f"{about}: property {problem.property} value {{{value}}} has a problem: {problem.reason}"
