"""Brings about provider resources: those a program makes, and the default one of each package.

No plugin call makes or changes them; a plugin is started with them instead.
Source: recordings, semantics §1-§2.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from hermesops.infra.engine.embedded.plugins.provider import Provider
from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.goal import Goal
from hermesops.infra.engine.embedded.protocol.plugin import ProviderFaultError
from hermesops.infra.engine.embedded.protocol.values import Secret, is_unknown
from hermesops.infra.engine.embedded.run.apply import Applier
from hermesops.infra.engine.embedded.run.decide import Way, decide
from hermesops.infra.engine.embedded.run.replace import Replacement
from hermesops.infra.engine.embedded.state.deployment import Resource


class ProviderResources:
    """The provider resources of one run."""

    def __init__(self, applier: Applier, replacement: Replacement) -> None:
        self._applier = applier
        self._providers = applier.providers
        self._replacement = replacement
        self._defaults: dict[str, asyncio.Task[Provider]] = {}

    async def serving(self, goal: Goal) -> Provider:
        """Find the provider of a registration, and wait until it can be used.

        Raises:
            StopRunError: There is none, or it refused its configuration.
        """
        try:
            return await self._providers.usable(await self._chosen(goal))
        except ProviderFaultError as fault:
            self._applier.fail_with(fault, goal.urn)

    async def _chosen(self, goal: Goal) -> Provider:
        if goal.provider:
            urn, _ = urns.split_reference(goal.provider)
            explicit = self._providers.current(urn)
            if explicit is None:
                raise ProviderFaultError(
                    "FAILED_PRECONDITION", f"the program names a provider that it did not create: {urn}"
                )
            return explicit
        package = urns.package_of(goal.type)
        if package not in self._defaults:
            self._defaults[package] = asyncio.create_task(self.register(self._default(package)))
        return await asyncio.shield(self._defaults[package])

    def _default(self, package: str) -> Goal:
        urn = urns.default_provider_urn(self._applier.journal.ref, package)
        prefix, config = f"{package}:", self._applier.options.config
        settings: dict[str, Any] = {
            key[len(prefix) :]: Secret(value) if key in config.secret else value
            for key, value in config.values.items()
            if key.startswith(prefix)
        }
        return Goal(urn=urn, type=urns.type_of(urn), name="default", custom=True, properties=settings)

    async def register(self, goal: Goal) -> Provider:
        """Bring about one provider resource; its plugin is started and begins to be configured."""
        known = self._applier.known
        old = known.olds.get(goal.urn)
        try:
            provider = await self._providers.launch(goal.urn)
            inputs = await self._check(provider, goal, old.inputs if old else {})
            if old is None:
                new = await self._applier.create(goal, inputs, provider)
            else:
                provider, new = await self._changed(goal, old, provider, inputs)
        except ProviderFaultError as fault:
            self._applier.fail_with(fault, goal.urn)
        known.news[goal.urn] = new
        self._providers.configure(provider, new.inputs, resource_id="" if is_unknown(new.id) else new.id)
        return provider

    async def _check(self, provider: Provider, goal: Goal, olds: Mapping[str, Any]) -> dict[str, Any]:
        inputs, problems = await provider.check_config(olds, goal.properties)
        self._applier.refuse(goal, problems)
        return inputs

    async def _changed(
        self, goal: Goal, old: Resource, provider: Provider, inputs: dict[str, Any]
    ) -> tuple[Provider, Resource]:
        answer = await provider.diff_config(old, inputs)
        decision = decide(old, inputs, answer, delete_first=False)
        match decision.way:
            case Way.SAME:
                return provider, self._applier.same(old, goal.resource(inputs=inputs))
            case Way.UPDATE:
                return provider, await self._applier.update(old, goal, inputs, provider, decision)
            case Way.REPLACE_NEW_FIRST | Way.REPLACE_OLD_FIRST:
                await self._providers.retire(provider)
                fresh = await self._providers.launch(goal.urn)
                inputs = await self._check(fresh, goal, {})
                return fresh, await self._replacement.new_first(goal, old, inputs, fresh, decision)
