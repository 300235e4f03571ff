"""Asks the provider about one registration; an answer that ends the run is told here.

Source: recordings, semantics §2, §7.
"""

from collections.abc import Mapping
from typing import Any

from hermesops.engine.embedded.plugins.provider import Provider
from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.answers import Problem
from hermesops.engine.embedded.protocol.goal import Goal
from hermesops.engine.embedded.protocol.rpc import ProviderFaultError
from hermesops.engine.embedded.protocol.values import masked
from hermesops.engine.embedded.run.progress import Known
from hermesops.engine.embedded.run.resources.apply import Applier
from hermesops.engine.embedded.run.resources.decide import Decision, Way, decide
from hermesops.engine.embedded.state.deployment import Resource


class Questions:
    """Check and Diff, for the registrations of one run."""

    def __init__(self, applier: Applier, known: Known) -> None:
        self._applier = applier
        self._known = known

    async def check(self, provider: Provider, goal: Goal, olds: Mapping[str, Any]) -> dict[str, Any]:
        """Ask what the wanted inputs mean.

        Raises:
            StopRunError: They are refused; why has been told.
        """
        try:
            inputs, problems = await provider.check(goal.urn, olds, goal.properties)
        except ProviderFaultError as fault:
            self._applier.fail_asking(goal.urn, fault)
        self.refuse(goal, problems)
        return inputs

    def refuse(self, goal: Goal, problems: list[Problem]) -> None:
        """Stop the run if there are problems; each is told."""
        if not problems:
            return
        about = f"{goal.type} resource '{goal.name}'"
        for problem in problems[:-1]:
            self._applier.tell_failure(goal.urn, _problem(about, goal.properties, problem))
        self._applier.fail(goal.urn, _problem(about, goal.properties, problems[-1]))

    async def decide(
        self, goal: Goal, old: Resource, inputs: Mapping[str, Any], provider: Provider, reference: str
    ) -> Decision:
        """Ask what differs, and choose what is to be done about it."""
        try:
            if await self._needs_new_provider(old, provider, reference):
                return Decision(Way.REPLACE_NEW_FIRST, keys=("provider",))
            difference = await provider.diff(old, inputs)
        except ProviderFaultError as fault:
            self._applier.fail_asking(goal.urn, fault)
        return decide(old, inputs, difference, delete_first=goal.delete_first)

    async def _needs_new_provider(self, old: Resource, provider: Provider, reference: str) -> bool:
        """Whether what the old provider made cannot be taken over by the new one; the new one is asked."""
        if old.provider == reference or not old.provider:
            return False
        old_urn, old_id = urns.split_reference(old.provider)
        before = next((r for r in self._applier.journal.resources if r.urn == old_urn and r.id == old_id), None)
        after = self._known.news.get(provider.urn)
        if before is None or after is None or urns.package_of(before.type) != urns.package_of(after.type):
            return False
        answer = await provider.diff_config(before.inputs, before.outputs, after.inputs)
        return bool(answer.replaces)


def _problem(about: str, given: Mapping[str, Any], problem: Problem) -> str:
    if not problem.property:
        return f"{about} has a problem: {problem.reason}"
    value = masked(given.get(problem.property))
    return f"{about}: property {problem.property} value {{{value}}} has a problem: {problem.reason}"
