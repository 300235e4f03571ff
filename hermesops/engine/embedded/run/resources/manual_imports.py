"""Imports by hand: things that exist become resources of a stack without a program.

Source: recordings, ``import_cli``.
"""

from collections.abc import Sequence
from dataclasses import replace

from hermesops.engine.embedded.plugins.provider import Provider
from hermesops.engine.embedded.plugins.provider_pool import Providers
from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.goal import Goal
from hermesops.engine.embedded.protocol.rpc import ProviderFaultError
from hermesops.engine.embedded.run.progress import Known
from hermesops.engine.embedded.run.resources.apply import Applier
from hermesops.engine.embedded.run.resources.register import Registrar
from hermesops.model.stack import Import, StackRef


class TakingIn:
    """The imports by hand of one run."""

    def __init__(
        self, ref: StackRef, known: Known, applier: Applier, providers: Providers, registrar: Registrar
    ) -> None:
        self._ref = ref
        self._known = known
        self._applier = applier
        self._providers = providers
        self._registrar = registrar

    async def take(self, wanted: Sequence[Import]) -> None:
        """Take them in, one after the other; what the stack has already stays as it is.

        Raises:
            StopRunError: One does not exist, or another bears its name; those before it are in.
        """
        for old in list(self._applier.journal.left):
            self._applier.unlisted(old)
        root = urns.stack_urn(self._ref)
        if root not in self._known.olds:
            stack = Goal(urn=root, type=urns.STACK_TYPE, name=urns.name_of(root), custom=False)
            self._known.news[root] = self._registrar.component(stack)
            self._applier.events.step("outputs", self._known.steps[root])
        for thing in wanted:
            goal = Goal(
                urn=urns.urn_of(self._ref, thing.type, thing.name, root),
                type=thing.type,
                name=thing.name,
                custom=True,
                parent=root,
                protect=thing.protect,
                import_id=thing.id,
            )
            await self._take_one(goal)

    async def _take_one(self, goal: Goal) -> None:
        provider = await self._provider(goal)
        old = self._known.olds.get(goal.urn)
        if old is not None and old.id == goal.import_id:
            return
        if old is not None:
            self._applier.fail(goal.urn, f"the stack has another one of this name already: {old.id}")
        reference = urns.reference(provider.urn, provider.id)
        journal = self._applier.journal
        taken = await self._registrar.importer.take(goal, None, provider, reference)
        inputs = await self._registrar.importer.checked(replace(goal, properties=taken.inputs), taken, provider)
        journal.swap(taken, replace(taken, inputs=inputs, import_id=""))
        journal.save()

    async def _provider(self, goal: Goal) -> Provider:
        """The default provider of the package: the stack's own, or a new one."""
        old = self._known.olds.get(urns.default_provider_urn(self._ref, urns.package_of(goal.type)))
        if old is None:
            return await self._registrar.provider_resources.serving(goal)
        try:
            return await self._providers.of_state(urns.reference(old.urn, old.id), self._applier.journal.resources)
        except ProviderFaultError as fault:
            self._applier.fail_asking(goal.urn, fault)
