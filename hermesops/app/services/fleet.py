"""Composes what holds the accounts of a fleet against each other, and what repairs machines by their roles."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from hermesops import child_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermesops.app.container import Container
    from hermesops.app.container_parts.connected import Connected
    from hermesops.converge import Converged
    from hermesops.drift.changes import Happening
    from hermesops.drift.collect import Survey
    from hermesops.drift.finding import Finding
    from hermesops.drift.inspection import Asked, RolesReport
    from hermesops.image.build import Recipe
    from hermesops.justavps import Machine
    from hermesops.model.check import Check
    from hermesops.model.ids import InstanceId
    from hermesops.model.instance import Instance
    from hermesops.model.selector import Selector

_ENTRIES = 10_000

_BUILD_LASTS = timedelta(hours=2)
"""A build's machines that are older were left behind by a killed one."""


class Drift:
    """Finds what differs in one environment.

    Args:
        session: Connections to vendor and machines.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._app = session.app

    async def findings(self, selector: "Selector", *, deep: bool) -> "tuple[Finding, ...]":
        """Everything that differs among what is selected, the worst first; notes how machines look.

        Args:
            selector: By ``plan``, ``cell``, ``status`` and ``user``.
            deep: Ask the machines too.

        Raises:
            UsageError: It names a user or a cell that is not there.
        """
        from hermesops.app.services.selection import refuse_unknown
        from hermesops.drift.compare import compare
        from hermesops.drift.inspection import inspect
        from hermesops.drift.repairs import RepairAdvisor
        from hermesops.drift.selection import machines_asked, narrowed

        refuse_unknown(self._app.registry, selector)
        survey = self._survey()
        snapshot = await survey.observe()
        if deep:
            told = await inspect(self._asked(), machines_asked(snapshot, selector), tell=self._app.tell)
            snapshot = replace(snapshot, told=told)
        snapshot = survey.remember(snapshot)
        return narrowed(compare(snapshot, RepairAdvisor(self._app.program)), snapshot.rows, selector)

    async def converge(self, instances: "Sequence[Instance]", *, check: bool = False) -> "Converged":
        """Bring machines to what the roles say: every managed file as it should be, every unit too.

        Args:
            instances: Whose machines; they have some.
            check: Only find out what would change.
        """
        from hermesops.converge import hosts_of

        recipe = self._session.recipe(self._app.env.settings.image)
        variables = {**recipe.variables, "hermes_agent_bundle": await self._bundle(recipe, instances[0])}
        run, tell = self._session.converger.run, self._app.tell
        return await run(
            "instance", hosts_of(instances), variables=variables, check=check, tell=None if check else tell
        )

    async def accept_size(self, instance: "Instance", *, reason: str) -> tuple[str, str]:
        """Order from now on the size that an instance's machine was given behind our back; the sizes before and now.

        Raises:
            UnavailableError: JustAVPS lists no machine of it.
        """
        from hermesops.errors import UnavailableError
        from hermesops.model.ids import instance_subject

        async with self._app.hold_lease(instance_subject(instance.id)):
            machine = await self._session.instance_client.machine(instance)
            if machine is None or not machine.server_type:
                raise UnavailableError(f"JustAVPS does not say how large {instance.machine_name} is")
            before = self._app.registry.recovery.accept_server_type(instance.id, machine.server_type, why=reason)
        return before, machine.server_type

    async def _bundle(self, recipe: "Recipe", instance: "Instance") -> str:
        """The folder of the agent's wheels, for the Python that an instance's machine has."""
        from hermesops.image import agent_bundle
        from hermesops.image import machine_facts as survey
        from hermesops.image.download import Pip

        env, tell = self._app.env, self._app.tell
        python = (await survey.survey(await self._session.instance_client.channel_to(instance))).python
        downloads = Pip(env.for_child(child_environment.PACKAGES))
        make = partial(agent_bundle.bundle, recipe.definition, python, cache=env.cache, downloads=downloads, tell=tell)
        return str((await asyncio.to_thread(make)).folder)

    def _survey(self) -> "Survey":
        from hermesops.cells.stack.state import machines_in
        from hermesops.drift.collect import Survey

        app = self._app
        return Survey(
            app.env.name, app.registry, self._session.client, app.cell_stacks.state, machines_in, self._is_passing
        )

    def _is_passing(self, machine: "Machine") -> bool:
        from hermesops.image.machines import is_build_machine

        age = datetime.now(UTC) - machine.created_at if machine.created_at else timedelta()
        return is_build_machine(machine.name, self._app.env.name) and age < _BUILD_LASTS

    def _asked(self) -> "Asked":
        from hermesops.drift.inspection import Asked

        reach = self._session.instance_client
        return Asked(reach.channel, reach.node, reach.payload_digest, self._verified, self._roles)

    async def _verified(self, instance: "Instance") -> "Sequence[Check]":
        verification = await self._session.verify(instance)
        return verification.for_user(instance.title)

    async def _roles(self, instances: "Sequence[Instance]") -> "Mapping[InstanceId, RolesReport]":
        from hermesops.drift.inspection import RolesReport
        from hermesops.errors import HermesError

        try:
            ran = await self.converge(instances, check=True)
        except HermesError as error:
            return {instance.id: RolesReport(unseen=error.message) for instance in instances}
        said = {}
        for instance in instances:
            host = ran.hosts[instance.user_alias or instance.id]
            failure = f"{host.status} at {host.failure.task}" if host.failure else host.status
            said[instance.id] = RolesReport(host.changed, "" if host.status == "done" else f"roles: {failure}")
        return said


async def list_machines(app: "Container") -> None:
    """Ask the vendor for its list of machines, and note what it says: one call, and nothing else is compared."""
    from hermesops.drift.collect import listing

    rows = app.registry.fleet.list_ordered()
    async with app.vendor() as client:
        seen, missing = listing(await client.list_machines(), rows, app.env.name, {})
    app.registry.observations.record(seen, missing=missing)


async def happenings(app: "Container", since: datetime) -> "tuple[Happening, ...]":
    """What happened to the fleet since a moment, oldest first; the vendor is not asked."""
    from hermesops.cells.stack.state import PROJECT, stack_of
    from hermesops.drift import changes
    from hermesops.errors import HermesError

    runs = {}
    there = set(await app.engine.stacks(PROJECT))
    for cell in app.registry.cells.list():
        if stack_of(cell.name) in there:
            try:
                runs[cell.name] = await app.engine.history(stack_of(cell.name))
            except HermesError as error:
                app.tell(f"the history of {cell.name} cannot be read: {error.message}")
    entries = app.registry.audit.list(since=since, limit=_ENTRIES)
    if len(entries) == _ENTRIES:
        app.tell(f"only the newest {_ENTRIES} entries of the audit are shown")
    return changes.happenings(entries, runs, since=since)
