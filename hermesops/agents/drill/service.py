"""Drills of runbooks: each has an agent of its own, on a machine of the warm pool that is destroyed at its end."""

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesops.base.waiting import Pending, pause_blocking, until
from hermesops.errors import HermesError, Hint, RefusedError, UsageError
from hermesops.model.fleet.user import DRILLS
from hermesops.model.plan import Plan
from hermesops.observability.runbook import drill
from hermesops.observability.runbook.document import load
from hermesops.observability.runbook.fault import Action, AtVendor, ByCommand, Fault, OnMachine
from hermesops.observability.runbook.faults import FAULTS, fault
from hermesops.observability.runbook.reading import is_reading
from hermesops.observability.runbook.run import unseen
from hermesops.observability.runbook.service import values_of
from hermesops.vendor.justavps.wire import MachineStatus

if TYPE_CHECKING:
    from hermesops.agents.instances.requests.provision import ProvisionAdmission
    from hermesops.agents.pool.service import Pools
    from hermesops.model.access.audit import AuditEntry
    from hermesops.model.fleet.instance import Instance
    from hermesops.observability.runbook.command import Ended
    from hermesops.observability.runbook.drill import Drilled
    from hermesops.store.operations.runner import Operations
    from hermesops.store.registry import Registry
    from hermesops.vendor.justavps import Client

_STOPPED_S = 300.0


@dataclass(frozen=True)
class LastDrill:
    """The newest drill of a fault; ``problem`` is empty where all was well at its end."""

    at: datetime
    problem: str
    after: Mapping[str, object]


@dataclass(frozen=True)
class DrillMachines:
    """Provides the machine of a drill, and stops or deletes it through JustAVPS."""

    registry: "Registry"
    pools: "Pools"
    admission: "ProvisionAdmission"
    operations: "Operations"
    client: "Client"

    async def provision(self, fault: Fault) -> "Instance":
        """Give a drill an agent, on a machine of the warm pool.

        Raises:
            RefusedError: None is ready.
        """
        ready = next((row for plan in Plan for row in self.pools.ready(plan)), None)
        if ready is None:
            raise RefusedError(
                "no machine of a warm pool is ready; a drill never uses a user's machine",
                hint=Hint(("job", "run", "pools"), "prepares some if pool_size is set"),
            )
        # In its region: elsewhere no pool has one, and a machine would be made for the drill.
        instance, operation = await self.admission.admit(user_of(fault), ready.plan, region=ready.region, is_drill=True)
        await self.operations.run(operation)
        return self.registry.instances.get(instance.id)

    async def at_vendor(self, instance: "Instance", action: AtVendor) -> None:
        """Stop or delete a drill's machine through JustAVPS, like somebody in its web interface.

        Raises:
            WaitExpiredError: It was not done within minutes.
        """
        client, machine_id = self.client, instance.machine_id or ""
        if action.verb == "delete":
            await client.delete_machine(machine_id)
            return
        await client.stop_machine(machine_id)

        async def observe() -> bool | Pending[bool]:
            status = (await client.get_machine(machine_id)).status
            return status is MachineStatus.STOPPED or Pending(status)

        await until(observe, what=f"machine {instance.machine_name} to stop", timeout_s=_STOPPED_S)


@dataclass(frozen=True)
class Stage:
    """Where a drill is run from.

    Attributes:
        run: Runs a coroutine to its end.
        report: Takes a line about the next action.
        show: Takes the output of commands that change something.
    """

    run: Callable[[Coroutine[Any, Any, Any]], Any]
    report: Callable[[Hint], None]
    show: Callable[[str], None]


@dataclass(frozen=True)
class DrillResult:
    """Result of a drill.

    Attributes:
        drilled: Findings of the drill; ``None`` where it failed.
        failure: Why it failed; ``None`` where all was well at its end.
    """

    fault: Fault
    instance: "Instance"
    drilled: "Drilled | None"
    failure: HermesError | None


@dataclass(frozen=True)
class RunbookDrills:
    """Drills of runbooks in one environment.

    Attributes:
        is_local: Whether its machines are on this computer.
        folder: Where runbooks are.
        provision: ``DrillMachines.provision``, with connections of its own.
        at_vendor: ``DrillMachines.at_vendor``, with connections of its own.
        command: Runs a command of hermesops in this environment, given its words and a function for its output.
    """

    registry: "Registry"
    is_local: bool
    folder: Path
    provision: "Callable[[Fault], Coroutine[Any, Any, Instance]]"
    at_vendor: "Callable[[Instance, AtVendor], Coroutine[Any, Any, None]]"
    command: "Callable[[tuple[str, ...], Callable[[str], None]], Coroutine[Any, Any, Ended]]"

    def list(self) -> "Sequence[tuple[Fault, LastDrill | None]]":
        """Every fault with its newest drill."""
        return [(fault, last(self.registry, fault)) for fault in FAULTS]

    def last(self, fault: Fault) -> LastDrill | None:
        """The newest drill of a fault; ``None`` for none."""
        return last(self.registry, fault)

    def choose(self, name: str) -> Fault:
        """The fault that a drill of this environment can bring about.

        Args:
            name: Of the fault, of its runbook, or of an alert.

        Raises:
            UsageError: There is none of that name.
            RefusedError: It is about more than one machine, or only the local world can bring it about.
        """
        chosen = fault(name)
        self._refuse_undrilled(chosen)
        return chosen

    def can_drill(self, fault: Fault) -> bool:
        """Whether a drill of this environment can bring a fault about, as ``choose`` judges it."""
        try:
            self._refuse_undrilled(fault)
        except RefusedError:
            return False
        return True

    def _refuse_undrilled(self, chosen: Fault) -> None:
        if not chosen.is_drilled:
            hint = Hint(("runbook", "show", chosen.runbook), "repairs it; only tests inject it")
            raise RefusedError(f"{chosen.name} affects more than one machine", hint=hint)
        if chosen.needs_local and not self.is_local:
            hint = Hint(("drill", "list"), "lists the others")
            raise RefusedError(f"{chosen.name} can be injected in the local world only: {chosen.meaning}", hint=hint)

    def run(self, fault: Fault, stage: Stage) -> DrillResult:
        """Break a machine of a warm pool, run the fault's runbook, verify, and destroy the machine.

        The agent of a killed drill of the fault is destroyed first. The result is written to the audit, and the machine
        destroyed, also where the drill failed.

        Raises:
            RefusedError: No machine of a warm pool is ready.
        """
        if left_over(self.registry, fault):
            stage.report(Hint(f"{user_of(fault)} is left over from a killed drill"))
            self._destroy(fault, stage)
        instance: Instance = stage.run(self.provision(fault))
        drilled, failure = None, None
        try:
            drilled = self._break_and_mend(fault, instance, stage)
        except HermesError as error:
            failure = error
        note(self.registry, fault, drilled, failure.message if failure else "")
        self._destroy(fault, stage)
        return DrillResult(fault, instance, drilled, failure)

    def _break_and_mend(self, fault: Fault, instance: "Instance", stage: Stage) -> "Drilled":
        runbook = load(self.folder, fault.runbook)
        values = values_of(self.registry, runbook, instance)
        values = {**values, "USER": instance.title, "INSTANCE": instance.id}
        world = drill.World(
            execute=lambda words: self._execute(words, stage),
            watch=lambda words: self._execute(words, stage, shown=False),
            inject=lambda action: self._inject(action, fault, instance, stage),
            clock=time.monotonic,
            pause=pause_blocking,
            report=stage.report,
            show=stage.show,
        )
        return drill.run(fault.filled(values), runbook.filled(values), instance.title, world)

    def _inject(self, action: Action, fault: Fault, instance: "Instance", stage: Stage) -> None:
        match action:
            case AtVendor():
                stage.run(self.at_vendor(instance, action))
                return
            case ByCommand(words=words):
                pass
            case OnMachine(script=script):
                words = ("instance", "exec", "--reason", f"drill {fault.name}", instance.title, script)
        if code := self._execute(words, stage).exit_code:
            raise RefusedError(f"the fault was not injected: {' '.join(words)} ended with exit code {code}")

    def _destroy(self, fault: Fault, stage: Stage) -> None:
        """End a drill's agent and its machine; where that fails, report the command that is left to do."""
        why = ("--reason", "the drill is over")
        words = ("instance", "terminate", user_of(fault), "--now", "--without-backup", "--yes", *why)
        if self._execute(words, stage, shown=False).exit_code:
            stage.report(Hint(words, "destroys the machine"))

    def _execute(self, words: tuple[str, ...], stage: Stage, *, shown: bool = True) -> "Ended":
        """Run a command of hermesops; one that changes something shows its output, if wanted."""
        show = stage.show if shown and not is_reading(words) else unseen
        ended: Ended = stage.run(self.command(words, show))
        return ended


def user_of(fault: Fault) -> str:
    """The alias of a drill's own agent; no user has such a one."""
    return f"{DRILLS}{fault.name}"


def left_over(registry: "Registry", fault: Fault) -> "Instance | None":
    """The agent of a drill that was killed."""
    try:
        instance = registry.instances.find(user_of(fault))
    except UsageError:
        return None
    return registry.instances.of_user(instance.user_id)


def note(registry: "Registry", fault: Fault, drilled: "Drilled | None", problem: str) -> None:
    """Write the result of a drill to the audit."""
    fields = vars(drilled) if drilled else {}
    after = {"runbook": fault.runbook, "problem": problem, **fields}
    registry.audit.append("drill_run", _subject(fault), why=f"drill {fault.name}", after=after)


def last(registry: "Registry", fault: Fault) -> LastDrill | None:
    """The newest drill of a fault."""
    entries = registry.audit.list(subject=_subject(fault), limit=1)
    return next(map(_last, entries), None)


def _last(entry: "AuditEntry") -> LastDrill:
    return LastDrill(entry.at, str(entry.after.get("problem", "")), entry.after)


def _subject(fault: Fault) -> str:
    return f"drill/{fault.name}"
