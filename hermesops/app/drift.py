"""Composes what holds the accounts of a fleet against each other, and what repairs machines by their roles."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hermesops.model.ids import MachineId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermesops.app.session import Session
    from hermesops.converge import Converged
    from hermesops.drift.finding import Finding
    from hermesops.drift.inspection import Asked, RolesSaid
    from hermesops.drift.survey import Survey
    from hermesops.image.build import Recipe
    from hermesops.justavps import Machine
    from hermesops.model.check import Check
    from hermesops.model.ids import InstanceId
    from hermesops.model.instance import Instance
    from hermesops.model.selector import Selector

_BUILD_LASTS = timedelta(hours=2)
"""A build's machines that are older were left behind by a killed one."""


class Drift:
    """Finds what differs in one environment.

    Args:
        session: Connections to vendor and machines.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._app = session.app

    @property
    def program(self) -> str:
        """The command's name as an operator of this environment types it."""
        name = self._app.env.name
        return "hermesops" if name == "local" else f"hermesops --env {name}"

    async def findings(self, selector: "Selector", *, deep: bool) -> "tuple[Finding, ...]":
        """Everything that differs among what is selected, the worst first; notes how machines look.

        Args:
            selector: By ``plan``, ``cell``, ``status`` and ``user``.
            deep: Ask the machines too.
        """
        from hermesops.drift.compare import compare
        from hermesops.drift.inspection import inspect
        from hermesops.drift.repairs import Clerk
        from hermesops.drift.selection import machines_asked, narrowed

        survey = self._survey()
        accounts = await survey.look()
        if deep:
            told = await inspect(self._asked(), machines_asked(accounts, selector), tell=self._app.tell)
            accounts = replace(accounts, told=told)
        accounts = survey.remember(accounts)
        return narrowed(compare(accounts, Clerk(self.program)), accounts.rows, selector)

    async def converge(self, instances: "Sequence[Instance]") -> "Converged":
        """Bring machines to what the roles say: every managed file as it should be, every unit too."""
        from hermesops.converge import hosts_of
        from hermesops.image import survey, wheels
        from hermesops.image.download import Pip

        recipe = self._recipe()
        found = await survey.survey(self._session.reach.channel(_machine_of(instances[0])))
        bundle = await asyncio.to_thread(
            wheels.bundle,
            recipe.definition,
            found.python,
            cache=self._app.env.cache,
            downloads=Pip(self._app.env.inherited),
            tell=self._app.tell,
        )
        variables = {**recipe.variables, "hermes_agent_bundle": str(bundle.folder)}
        return await self._session.converger.run(
            "instance", hosts_of(instances), variables=variables, tell=self._app.tell
        )

    def _survey(self) -> "Survey":
        from hermesops.drift.survey import Survey
        from hermesops.placement.cell_state import machines_in

        app = self._app
        return Survey(app.env.name, app.registry, self._session.client, app.cell_stacks, machines_in, self._is_passing)

    def _is_passing(self, machine: "Machine") -> bool:
        from hermesops.image.names import is_build_machine

        age = datetime.now(UTC) - machine.created_at if machine.created_at else timedelta()
        return is_build_machine(machine.name, self._app.env.name) and age < _BUILD_LASTS

    def _asked(self) -> "Asked":
        from hermesops.drift.inspection import Asked

        reach = self._session.reach
        return Asked(reach.channel, reach.node, reach.payload_digest, self._verified, self._roles)

    async def _verified(self, instance: "Instance") -> "Sequence[Check]":
        verification = await self._session.verify(instance)
        return verification.for_user(instance.user_alias or instance.user_id)

    async def _roles(self, instances: "Sequence[Instance]") -> "Mapping[InstanceId, RolesSaid]":
        from hermesops.converge import hosts_of
        from hermesops.drift.inspection import RolesSaid
        from hermesops.errors import HermesError

        # The bundle is unpacked only where there is no slot yet, so its place need not exist to look.
        variables = {**self._recipe().variables, "hermes_agent_bundle": str(self._app.env.cache / "bundle")}
        try:
            ran = await self._session.converger.run("instance", hosts_of(instances), variables=variables, check=True)
        except HermesError as error:
            return {instance.id: RolesSaid(unseen=error.message) for instance in instances}
        said = {}
        for instance in instances:
            host = ran.hosts[instance.user_alias or instance.id]
            failure = f"{host.status} at {host.failure.task}" if host.failure else host.status
            said[instance.id] = RolesSaid(host.changed, "" if host.status == "done" else f"roles: {failure}")
        return said

    def _recipe(self) -> "Recipe":
        return self._session.recipe(self._app.env.settings.image)


def _machine_of(instance: "Instance") -> MachineId:
    from hermesops.errors import UnavailableError

    if instance.machine_id is None:
        raise UnavailableError(f"{instance.user_alias or instance.user_id} has no machine")
    return instance.machine_id
