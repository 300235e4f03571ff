"""Deletes what is not wanted any more: dependents before what they depend on, independent ones side by side.

Source: recordings, semantics §2 (deletes), §4.
"""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import replace

from hermesops.engine.embedded.plugins.provider_pool import Providers
from hermesops.engine.embedded.protocol.rpc import ProviderFaultError
from hermesops.engine.embedded.run.destroy_guard import guarded, refuse_unnamed
from hermesops.engine.embedded.run.events import Op, Step
from hermesops.engine.embedded.run.resources.apply import Applier, StopRunError
from hermesops.engine.embedded.run.targets import left_behind, not_named
from hermesops.engine.embedded.state.deployment import Resource
from hermesops.engine.interface import MayDestroy


def must_go_first(victims: list[Resource]) -> dict[int, list[int]]:
    """For each victim the others, by index, that must be gone before it. Pure."""
    wanted: dict[int, list[int]] = {index: [] for index in range(len(victims))}
    by_urn: dict[str, list[int]] = {}
    for index, victim in enumerate(victims):
        by_urn.setdefault(victim.urn, []).append(index)
    for index, victim in enumerate(victims):
        for urn in victim.needs():
            for needed in by_urn.get(urn, ()):
                if needed != index and victims[needed].urn != victim.urn:
                    wanted[needed].append(index)
    return wanted


class Removal:
    """Deletes resources of the state; one that is protected does not stop the others.

    Args:
        may_destroy: Whom the caller allows to be deleted; None allows everything.
        targets: URNs that may be deleted; empty for all.
    """

    def __init__(
        self, applier: Applier, providers: Providers, *, may_destroy: MayDestroy | None, targets: Collection[str]
    ) -> None:
        self._applier = applier
        self._providers = providers
        self._may_destroy = may_destroy
        self._targets = targets

    async def unwanted(self) -> None:
        """Delete what a program that has ended did not register; old halves of replacements need no permission.

        Raises:
            RefusedError: A guard said no; nothing was deleted.
        """
        victims, _ = self._chosen()
        await self._permitted(victims, [old for old in victims if not old.delete])

    async def everything(self) -> None:
        """Delete all, or the targets.

        Raises:
            RefusedError: A guard said no; nothing was deleted.
            StopRunError: Something would stay that needs what goes; told, and nothing was deleted.
        """
        victims, others = self._chosen()
        if self._targets:
            self._refuse_dependents(victims)
        for old in others:
            self._applier.unlisted(old)
        await self._permitted(victims, victims)

    def _chosen(self) -> tuple[list[Resource], list[Resource]]:
        """What is left of the state: what is a target, and what is none."""
        left = self._applier.journal.left
        victims = [old for old in left if not self._targets or old.urn in self._targets]
        return victims, [old for old in left if self._targets and old.urn not in self._targets]

    def _refuse_dependents(self, victims: list[Resource]) -> None:
        """Nothing is deleted from under what stays."""
        behind = left_behind(self._applier.journal.left, victims)
        for dependent in behind:
            self._applier.report(not_named(dependent.urn), dependent.urn)
        if behind:
            self._applier.halt.stopped = True
            raise StopRunError

    async def _permitted(self, victims: list[Resource], guarded_ones: list[Resource]) -> None:
        """Delete; what was deleted already for a replacement that never came only leaves the list."""
        for entry in [old for old in victims if old.pending_replacement]:
            self._applier.journal.move(entry, None)
        refuse_unnamed((old for old in guarded_ones if not old.pending_replacement), self._may_destroy)
        await self._remove([old for old in victims if not old.pending_replacement])

    async def _remove(self, victims: list[Resource]) -> None:
        """Delete all of them; failures are told, and what they depend on stays."""
        first = must_go_first(victims)
        gone: list[asyncio.Future[bool]] = [asyncio.get_running_loop().create_future() for _ in victims]

        async def one(index: int) -> None:
            try:
                before = [await asyncio.shield(gone[other]) for other in first[index]]
                gone[index].set_result(all(before) and await self._delete(victims[index]))
            finally:
                if not gone[index].done():
                    gone[index].set_result(False)

        await asyncio.gather(*(one(index) for index in reversed(range(len(victims)))))

    async def _delete(self, old: Resource) -> bool:
        step = Step(Op.DELETE_REPLACED if old.delete else Op.DELETE, old.urn)
        if old.protect and not old.delete:
            self._refuse_protected(step)
            return False
        async with self._applier.slots:
            if self._applier.halt.stopped:
                return False
            self._applier.events.step("pre", step, old.id)
            try:
                await self._gone(old)
            except ProviderFaultError as fault:
                self._applier.halt.faults.append(fault)
                self._applier.halt.stopped = True
                self._applier.tell_failure(old.urn, fault.message, step)
                return False
            self._applier.finish(step, old)
        return True

    def _refuse_protected(self, step: Step) -> None:
        self._applier.events.step("pre", step)
        if not self._applier.dry:
            self._applier.events.step("failed", step)
        prefix = "Preview failed: " if self._applier.dry else ""
        self._applier.report(
            f'{prefix}resource "{step.urn}" cannot be deleted\nbecause it is protected. To unprotect the resource, '
            "either remove the `protect` flag from the resource in your Pulumi program and run `pulumi up`, or use the "
            f"command:\n`pulumi state unprotect '{step.urn}'`\n",
            step.urn,
        )

    async def _gone(self, old: Resource) -> None:
        journal = self._applier.journal
        provider = None
        if guarded(old):
            provider = await self._providers.of_state(old.provider, journal.resources)
        if self._applier.dry:
            journal.move(old, None)
            return
        operation = journal.begin("deleting", old)
        try:
            if provider is not None:
                await provider.delete(old)
        except ProviderFaultError:
            journal.end(operation)
            raise
        journal.end(operation, old=old)


async def delete_for_replacement(applier: Applier, providers: Providers, victims: Iterable[Resource]) -> list[Resource]:
    """Delete resources whose replacements come afterwards; they stay in the list, marked, until those exist.

    They go in the given order; the marked entries are returned.

    Raises:
        StopRunError: One could not be deleted; the rest was left alone.
    """
    marked = []
    for old in victims:
        step = Step(Op.DELETE_REPLACED, old.urn)
        applier.halt.check()
        applier.events.step("pre", step, old.id)
        entry = replace(old, pending_replacement=True)
        if applier.dry:
            applier.journal.swap(old, entry)
        else:
            provider = await providers.of_state(old.provider, applier.journal.resources)
            operation = applier.journal.begin("deleting", old)
            try:
                await provider.delete(old)
            except ProviderFaultError as fault:
                applier.journal.end(operation)
                applier.fail_with(fault, step)
            applier.journal.swap(old, entry)
            applier.journal.end(operation)
        applier.finish(step, entry)
        marked.append(entry)
    return marked
