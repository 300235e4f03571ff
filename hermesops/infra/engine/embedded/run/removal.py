"""Deletes unwanted resources: dependents before their dependencies, independent ones in parallel.

Source: recordings, semantics §2 (deletes), §4, ``targets``.
"""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import replace

from hermesops.infra.engine.embedded.protocol.plugin import ProviderFaultError
from hermesops.infra.engine.embedded.run.apply import Applier
from hermesops.infra.engine.embedded.run.events import Op, Step
from hermesops.infra.engine.embedded.state.deployment import Resource


def must_go_first(victims: list[Resource]) -> dict[int, list[int]]:
    """For each resource to delete, the indexes of those to delete before it. Pure."""
    before: dict[int, list[int]] = {index: [] for index in range(len(victims))}
    by_urn: dict[str, list[int]] = {}
    for index, victim in enumerate(victims):
        by_urn.setdefault(victim.urn, []).append(index)
    for index, victim in enumerate(victims):
        for urn in victim.needs():
            for needed in by_urn.get(urn, ()):
                if needed != index and victims[needed].urn != victim.urn:
                    before[needed].append(index)
    return before


async def remove_unwanted(applier: Applier) -> None:
    """Delete resources that an ended program did not register; old halves of replacements need no permission.

    Raises:
        RefusedError: It would destroy something that was not named; nothing was deleted.
    """
    victims = [old for old in applier.journal.left if applier.is_target(old.urn)]
    await _delete_allowed(applier, victims, [old for old in victims if not old.delete])


async def remove_everything(applier: Applier) -> None:
    """Delete all, or the targets.

    Raises:
        RefusedError: It would destroy something that was not named; nothing was deleted.
        StopRunError: A remaining resource needs a deleted one; it was reported, and nothing was deleted.
    """
    left = list(applier.journal.left)
    victims = [old for old in left if applier.is_target(old.urn)]
    behind = left_behind(left, victims)
    for dependent in behind:
        applier.report(not_named(dependent.urn), dependent.urn)
    if behind:
        applier.stop()
    for old in left:
        if not applier.is_target(old.urn):
            applier.report_unchanged(old)
    await _delete_allowed(applier, victims, victims)


async def _delete_allowed(applier: Applier, victims: list[Resource], guarded: list[Resource]) -> None:
    """Delete all if all guarded ones may be deleted; failures are reported, and their dependencies stay.

    A resource deleted for a replacement that was never made is only removed from the list.
    """
    for entry in [old for old in victims if old.pending_replacement]:
        applier.journal.move(entry, None)
    applier.refuse_unnamed(old for old in guarded if not old.pending_replacement)
    victims = [old for old in victims if not old.pending_replacement]
    first = must_go_first(victims)
    gone: list[asyncio.Future[bool]] = [asyncio.get_running_loop().create_future() for _ in victims]

    async def delete_at(index: int) -> None:
        try:
            before = [await asyncio.shield(gone[other]) for other in first[index]]
            gone[index].set_result(all(before) and await _delete(applier, victims[index]))
        finally:
            if not gone[index].done():
                gone[index].set_result(False)

    await asyncio.gather(*(delete_at(index) for index in reversed(range(len(victims)))))


async def _delete(applier: Applier, old: Resource) -> bool:
    step = Step(Op.DELETE_REPLACED if old.delete else Op.DELETE, old.urn)
    if old.protect and not old.delete:
        _refuse_protected(applier, step)
        return False
    async with applier.slots:
        if applier.stopped:
            return False
        applier.events.step("pre", step, old.id)
        try:
            await _remove(applier, old)
        except ProviderFaultError as fault:
            applier.faults.append(fault)
            applier.stopped = True
            applier.report_failure(old.urn, fault.message, step)
            return False
        applier.finish(step, old)
    return True


def _refuse_protected(applier: Applier, step: Step) -> None:
    applier.events.step("pre", step)
    if not applier.dry:
        applier.events.step("failed", step)
    prefix = "Preview failed: " if applier.dry else ""
    applier.report(
        f'{prefix}resource "{step.urn}" cannot be deleted\nbecause it is protected. To unprotect the resource, '
        "either remove the `protect` flag from the resource in your Pulumi program and run `pulumi up`, or use the "
        f"command:\n`pulumi state unprotect '{step.urn}'`\n",
        step.urn,
    )


async def _remove(applier: Applier, old: Resource) -> None:
    journal = applier.journal
    provider = await applier.providers.of_state(old.provider) if old.is_external else None
    operation = journal.begin("deleting", old)
    try:
        if provider is not None and not applier.dry:
            await provider.delete(old)
    except ProviderFaultError:
        journal.end(operation)
        raise
    journal.end(operation, old=old)


async def delete_for_replacement(applier: Applier, victims: Iterable[Resource]) -> list[Resource]:
    """Delete resources before their replacements are made; they stay in the list, marked, until then.

    They are deleted in the given order; returns the marked entries.

    Raises:
        StopRunError: One could not be deleted; the rest was left alone.
    """
    marked = []
    for old in victims:
        step = Step(Op.DELETE_REPLACED, old.urn)
        applier.check_running()
        applier.events.step("pre", step, old.id)
        entry = replace(old, pending_replacement=True)
        if applier.dry:
            applier.journal.swap(old, entry)
        else:
            provider = await applier.providers.of_state(old.provider)
            operation = applier.journal.begin("deleting", old)
            try:
                await provider.delete(old)
            except ProviderFaultError as fault:
                applier.journal.end(operation)
                applier.fail_with(fault, step.urn, step)
            applier.journal.swap(old, entry)
            applier.journal.end(operation)
        applier.finish(step, entry)
        marked.append(entry)
    return marked


def left_behind(resources: Iterable[Resource], victims: Collection[Resource]) -> list[Resource]:
    """Return the resources that depend on a victim, also indirectly, and are none themselves."""
    going = {victim.urn for victim in victims}
    dependents: list[Resource] = []
    for resource in resources:  # a state's list has dependencies before dependents
        if resource.urn not in going and resource.needs() & going:
            going.add(resource.urn)
            dependents.append(resource)
    return dependents


def not_named(urn: str) -> str:
    """The CLI's message that something cannot stay without a target and is none itself."""
    return (
        f"Resource '{urn}' will be destroyed but was not specified in --target list.\n"
        "Either include resource in --target list or pass --target-dependents to proceed."
    )
