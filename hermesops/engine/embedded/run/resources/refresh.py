"""Brings the state to what is really there; changes nothing else.

Source: recordings, semantics §2 (refresh: the roles of Diff are turned), §4, ``refresh_drift``.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from hermesops.engine.embedded.plugins.provider_pool import Providers
from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.answers import Difference, Differs, Found
from hermesops.engine.embedded.protocol.rpc import ProviderFaultError, describe
from hermesops.engine.embedded.run.events import Op, Step
from hermesops.engine.embedded.run.resources.apply import Applier
from hermesops.engine.embedded.run.resources.decide import compare, top
from hermesops.engine.embedded.state.deployment import Resource
from hermesops.engine.embedded.state.timestamps import now

TURNED = {"add": "delete", "delete": "add", "add-replace": "delete-replace", "delete-replace": "add-replace"}


class Refresh:
    """Looks at the resources of one stack.

    Args:
        targets: URNs to look at; empty for all.
    """

    def __init__(self, applier: Applier, providers: Providers, targets: Collection[str]) -> None:
        self._applier = applier
        self._providers = providers
        self._targets = targets

    async def run(self) -> None:
        """Look at all of them; one that cannot be looked at stays as it was, and the run fails at the end."""
        journal = self._applier.journal
        wanted = [r for r in journal.resources if not self._targets or r.urn in self._targets]
        await asyncio.gather(*(self._one(resource) for resource in wanted))
        forget_missing(journal.left)

    async def _one(self, old: Resource) -> None:
        begun = Step(Op.REFRESH, old.urn)
        async with self._applier.slots:
            if self._applier.halt.stopped:
                return
            self._applier.events.step("pre", begun, old.id)
            if not old.custom or urns.is_provider(old.type) or old.pending_replacement:
                self._applier.finish(Step(Op.SAME, old.urn), old)
                return
            try:
                provider = await self._providers.of_state(old.provider, self._applier.journal.resources)
                found = await provider.look(old)
                turned = (
                    await provider.diff(replace(old, inputs=found.inputs, outputs=found.outputs), old.inputs)
                    if found
                    else None
                )
            except ProviderFaultError as fault:
                self._applier.halt.faults.append(fault)
                self._applier.tell_failure(old.urn, describe(fault), begun)
                return
            self._note(old, found, turned)

    def _note(self, old: Resource, found: Found | None, turned: Difference | None) -> None:
        journal = self._applier.journal
        if found is None or turned is None:
            journal.move(old, None)
            self._applier.finish(Step(Op.DELETE, old.urn), old)
            return
        new = self._applier.with_outputs(
            replace(old, inputs=found.inputs, init_errors=found.reasons), found.id, found.outputs
        )
        if dict(new.inputs) != dict(old.inputs) or dict(new.outputs) != dict(old.outputs):
            new = replace(new, modified=now())
        journal.swap(old, new)
        self._applier.finish(drift(old, found.inputs, turned), new)


def drift(old: Resource, inputs: Mapping[str, Any], turned: Difference) -> Step:
    """Say what has changed outside, from a Diff that was asked the other way round. Pure."""
    if turned.differs is Differs.UNKNOWN:
        detailed = compare(old.inputs, inputs)
        op = Op.UPDATE if detailed else Op.SAME
        return Step(op, old.urn, diffs=tuple(sorted({top(path) for path in detailed})), detailed=detailed)
    detailed = {
        path: {**detail, "diffKind": TURNED.get(detail["diffKind"], detail["diffKind"])}
        for path, detail in (turned.detailed or {}).items()
    }
    op = Op.UPDATE if turned.differs is Differs.YES else Op.SAME
    return Step(op, old.urn, diffs=turned.diffs, detailed=detailed)


def forget_missing(resources: list[Resource]) -> None:
    """Take references to what is gone out of a state's list; children get the next parent that is there."""
    there = {resource.urn for resource in resources}
    parents = {resource.urn: resource.parent for resource in resources}
    for index, resource in enumerate(resources):
        parent = resource.parent
        while parent and parent not in there:
            parent = parents.get(parent, "")
        resources[index] = replace(
            resource,
            parent=parent,
            dependencies=tuple(urn for urn in resource.dependencies if urn in there),
            property_dependencies={
                key: kept
                for key, needed in resource.property_dependencies.items()
                if (kept := tuple(urn for urn in needed if urn in there))
            },
        )
