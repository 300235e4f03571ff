"""Updates the state to the resources that exist; changes nothing else.

Source: recordings, semantics §2 (refresh: the roles of Diff are turned), §4, ``refresh_drift``.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermesops.infra.engine.embedded.protocol.plugin import Difference, Differs, Found, ProviderFaultError, describe
from hermesops.infra.engine.embedded.run.apply import Applier, with_outputs
from hermesops.infra.engine.embedded.run.decide import compare, top
from hermesops.infra.engine.embedded.run.events import Op, Step
from hermesops.infra.engine.embedded.state.deployment import Resource, now

TURNED = {"add": "delete", "delete": "add", "add-replace": "delete-replace", "delete-replace": "add-replace"}


async def refresh(applier: Applier) -> None:
    """Read all resources, or the targets; one that cannot be read stays as it was, and the run fails at the end."""
    journal = applier.journal
    await asyncio.gather(*(_refresh_one(applier, old) for old in journal.resources if applier.is_target(old.urn)))
    forget_missing(journal.left)


async def _refresh_one(applier: Applier, old: Resource) -> None:
    begun = Step(Op.REFRESH, old.urn)
    async with applier.slots:
        if applier.stopped:
            return
        applier.events.step("pre", begun, old.id)
        if not old.is_external or old.pending_replacement:
            applier.finish(Step(Op.SAME, old.urn), old)
            return
        turned = None
        try:
            provider = await applier.providers.of_state(old.provider)
            observed = await provider.read(old)
            if observed:
                turned = await provider.diff(replace(old, inputs=observed.inputs, outputs=observed.outputs), old.inputs)
        except ProviderFaultError as fault:
            applier.faults.append(fault)
            applier.report_failure(old.urn, describe(fault), begun)
            return
        _note(applier, old, observed, turned)


def _note(applier: Applier, old: Resource, observed: Found | None, turned: Difference | None) -> None:
    if observed is None or turned is None:
        applier.journal.move(old, None)
        applier.finish(Step(Op.DELETE, old.urn), old)
        return
    new = with_outputs(
        replace(old, inputs=observed.inputs, init_errors=observed.reasons), observed.id, observed.outputs
    )
    if dict(new.inputs) != dict(old.inputs) or dict(new.outputs) != dict(old.outputs):
        new = replace(new, modified=now())
    applier.journal.swap(old, new)
    applier.finish(drift(old, observed.inputs, turned), new)


def drift(old: Resource, inputs: Mapping[str, Any], turned: Difference) -> Step:
    """Return the change outside since the last run, from a Diff in the opposite direction. Pure."""
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
    """Remove references to missing resources from a state's list; children get the next existing parent."""
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
                key: existing
                for key, needed in resource.property_dependencies.items()
                if (existing := tuple(urn for urn in needed if urn in there))
            },
        )
