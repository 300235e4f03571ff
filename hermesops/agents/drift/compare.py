"""Compares registry, stacks, vendor and machines. Pure: the same snapshot always gives the same findings."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

from hermesops.agents.drift.finding import Finding, Kind, Severity
from hermesops.agents.drift.fleet_snapshot import (
    FleetSnapshot,
    MachineSnapshot,
    Rebooted,
    StackSnapshot,
    StoppedOperation,
)
from hermesops.agents.drift.repairs import write_finding
from hermesops.base.narration import counted
from hermesops.errors import Hint
from hermesops.model.check import Verdict
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.overview import Ordered
from hermesops.model.fleet.selector import Selector
from hermesops.model.fleet.unassigned_machine import (
    MachineRole,
    UnassignedMachine,
    UnassignedStatus,
    drill_subject,
    machine_subject,
    pool_subject,
)
from hermesops.model.ids import (
    CellName,
    InstanceId,
    MachineId,
    MachineName,
    cell_in_name,
    environment_in_name,
    instance_subject,
)
from hermesops.model.image import owner_of
from hermesops.model.operation import OperationKind
from hermesops.store.operations.kinds.table import KINDS
from hermesops.vendor.justavps.wire import Machine, MachineStatus
from hermesops.wire.foreign_text import one_line, quoted

_ORDER = tuple(Severity)


def compare(snapshot: FleetSnapshot) -> tuple[Finding, ...]:
    """Compare the four sources of a fleet.

    A leased instance is skipped: its operation explains the differences. For an instance with a stopped operation only
    the operation and a lost machine are reported: continuing the operation repairs the rest.

    Returns:
        All differences, the worst first.
    """
    comparison = _Comparison(snapshot)
    findings = [
        *comparison.of_rows(),
        *comparison.of_unassigned(),
        *map(comparison.of_orphan, snapshot.orphans),
        *comparison.of_unknown(),
        *map(comparison.of_stopped, snapshot.stopped),
        *(finding for cell, stack in snapshot.stacks.items() for finding in comparison.of_stack(cell, stack)),
        *comparison.of_images(),
    ]
    return tuple(sorted(findings, key=lambda f: (_ORDER.index(f.severity), f.cell, f.machine, f.kind)))


@dataclass
class _Comparison:
    snapshot: FleetSnapshot

    @cached_property
    def known(self) -> frozenset[MachineName]:
        """Names of the machines that have a row."""
        of_instances = (row.instance.machine_name for row in self.snapshot.rows)
        return frozenset((*of_instances, *(row.name for row in self.snapshot.unassigned)))

    def of_rows(self) -> Iterator[Finding]:
        for row in self.snapshot.rows:
            if instance_subject(row.instance.id) not in self.snapshot.in_hand:
                yield from self._unless_changing(row)

    def _unless_changing(self, row: Ordered) -> Iterator[Finding]:
        kinds = self.snapshot.changing.get(row.instance.id, frozenset())
        for finding in self._of_row(row):
            is_lost = finding.kind in _LOSSES and OperationKind.RELOCATE not in kinds
            if not kinds or is_lost:
                yield finding

    def _of_row(self, row: Ordered) -> Iterator[Finding]:
        instance, machine = row.instance, self.snapshot.machine_of(row)
        if not row.wanted and machine is None and instance.status is InstanceStatus.SUSPENDED:
            return  # suspended: its state is in its backup
        if not row.wanted:
            yield self._write(Kind.LEAVING, row, "marked for deletion; its instance is not terminated yet")
        elif machine is None and instance.machine_id:
            difference = f"JustAVPS lists no machine {instance.machine_id}"
            if instance.id in self.snapshot.backed_up:
                yield self._write(Kind.MACHINE_RESTORABLE, row, f"{difference}; its state is in a backup")
            else:
                yield self._write(Kind.MACHINE_MISSING, row, f"{difference}; it has no backup")
        elif machine is None or instance.status is InstanceStatus.PROVISIONING:
            where = f"on machine {machine.id}" if machine else "without a machine"
            yield self._write(Kind.UNFINISHED, row, f"provisioning is unfinished, {where}")
        else:
            yield from self._of_machine(row, machine)

    def _of_machine(self, row: Ordered, machine: Machine) -> Iterator[Finding]:
        if row.instance.machine_id != machine.id:
            difference = (
                f"machine {machine.id} has its name; the registry has machine {row.instance.machine_id or 'none'}"
            )
            yield self._write(Kind.MACHINE_REPLACED, row, difference)
            return
        yield from self._of_status(row, machine)
        if machine.server_type and machine.server_type != row.server_type:
            yield self._write(Kind.RESIZED, row, f"server type {machine.server_type}, ordered {row.server_type}")
        if machine.image_id and machine.image_id != row.image_id:
            yield self._write(Kind.WRONG_IMAGE, row, f"image {machine.image_id}, ordered {row.image_id}")
        yield from self._in_stack(row, machine)
        answer = self.snapshot.answers.get(MachineId(machine.id))
        if answer is not None:
            rebooted = self.snapshot.rebooted.get(MachineId(machine.id))
            for kind, difference in machine_differences(row.instance, answer, rebooted):
                yield self._write(kind, row, difference)

    def _of_status(self, row: Ordered, machine: Machine) -> Iterator[Finding]:
        match machine.status:
            case MachineStatus.STOPPED if row.instance.status is InstanceStatus.RUNNING:
                yield self._write(Kind.STOPPED, row, "JustAVPS status: stopped; its instance is running")
            case MachineStatus.ERROR:
                yield self._write(Kind.IN_ERROR, row, "JustAVPS status: error; some machines recover by themselves")
            case MachineStatus.PROVISIONING | MachineStatus.UNKNOWN:
                yield self._write(Kind.NOT_READY, row, f"JustAVPS status: {machine.status}")

    def _in_stack(self, row: Ordered, machine: Machine) -> Iterator[Finding]:
        stack = self.snapshot.stacks.get(row.instance.cell)
        if stack is None or stack.unseen:
            return
        resource = stack.machines.get(row.instance.machine_name)
        if resource is None:
            yield self._write(Kind.NOT_IN_STACK, row, f"the stack of {row.instance.cell} does not contain this machine")
        elif resource.id and resource.id != machine.id:
            difference = f"its stack holds machine {resource.id} under its name; JustAVPS lists {machine.id}"
            yield self._write(Kind.STACK_DIFFERS, row, difference)
        elif (resource.server_type, resource.image_id) != (row.server_type, row.image_id or ""):
            has, ordered = (resource.server_type, resource.image_id), (row.server_type, row.image_id or "")
            what, was, expected = next(
                (name, old, new)
                for name, old, new in zip(("server type", "image"), has, ordered, strict=True)
                if old != new
            )
            yield self._write(
                Kind.STACK_BEHIND, row, f"the stack has {what} {was or 'none'}; its row orders {expected}"
            )

    def of_unassigned(self) -> Iterator[Finding]:
        left = {stopped.operation.subject for stopped in self.snapshot.stopped}
        for row in self.snapshot.unassigned:
            holders = {machine_subject(row.name), pool_subject(row.cell)}
            if row.instance_id:
                holders |= {instance_subject(row.instance_id), drill_subject(row.instance_id)}
            if not holders & (self.snapshot.in_hand | left) and (difference := self._of_one_unassigned(row)):
                kind = Kind.WARM_UNFINISHED if row.role is MachineRole.WARM else Kind.MACHINE_LEFT
                yield write_finding(kind, difference, cell=row.cell, machine=row.name)

    def _of_one_unassigned(self, row: UnassignedMachine) -> str:
        if not row.wanted:
            return f"marked for deletion ({row.role}); its row still exists"
        if self.snapshot.rented.named(row.name, row.machine_id) is None:
            return f"JustAVPS does not list this machine ({row.role})"
        if row.role is MachineRole.WARM and row.status is not UnassignedStatus.READY:
            return f"status {row.status}; no operation prepares it for the pool"
        return ""

    def of_orphan(self, machine: Machine) -> Finding:
        name = MachineName(machine.name)
        answer = self.snapshot.answers.get(MachineId(machine.id))
        kind, difference = Kind.ORPHAN, "no instance uses it"
        if name in self.known:
            kind, difference = Kind.DUPLICATE, "its instance uses another machine of the same name"
        elif name in self.snapshot.ended:
            kind, difference = Kind.ORPHAN_ENDED, f"its instance {self.snapshot.ended[name]} is terminated"
        elif answer is not None and not answer.silence and answer.instance_id is None:
            kind, difference = Kind.ORPHAN_ENDED, "it reports no instance"
        elif answer is not None and answer.instance_id is not None:
            difference = f"no row names it; it reports instance {answer.instance_id}"
        finding = write_finding(
            kind,
            f"machine {machine.id} is rented; {difference}",
            cell=cell_in_name(name) or "",
            machine=name,
            machine_id=machine.id,
        )
        # A machine that says whose it is may hold the only copy of a memory: nothing that destroys it is named.
        is_somebodys = kind is Kind.ORPHAN and answer is not None and answer.instance_id is not None
        return replace(finding, otherwise=()) if is_somebodys else finding

    def of_unknown(self) -> Iterator[Finding]:
        """One finding for each machine, but one for all of another environment, which has its own drift."""
        elsewhere: dict[str, list[Machine]] = {}
        for machine in self.snapshot.unknown:
            if environment := environment_in_name(machine.name):
                elsewhere.setdefault(environment, []).append(machine)
            else:
                difference = (
                    f"machine {machine.id} ({machine.server_type}, {machine.region}, {machine.status}) is rented, "
                    f"{_price([machine])}; delete it at JustAVPS if nobody needs it: its name is not of hermesops"
                )
                name = one_line(machine.name) or machine.id
                yield write_finding(Kind.UNKNOWN_MACHINE, difference, machine=name, machine_id=machine.id)
        for environment, machines in sorted(elsewhere.items()):
            difference = f"{counted(len(machines), 'machine')} rented in this account, {_price(machines)}"
            yield write_finding(Kind.UNKNOWN_MACHINE, difference, subject=f"machines of environment {environment}")

    def of_stopped(self, stopped: StoppedOperation) -> Finding:
        operation = stopped.operation
        row = self._of_instance.get(operation.instance_id) if operation.instance_id else None
        title, why = KINDS[operation.kind].title, one_line(stopped.problem) or "its process ended"
        during = f" at {quoted(operation.step)}" if operation.step else ""
        begun = f"{title} of {operation.created_at:%Y-%m-%d %H:%M} UTC"
        difference = f"{begun} is unfinished and no process works on it; it stopped{during}: {why}"
        if row and operation.kind is OperationKind.PROVISION:
            return self._write(Kind.UNFINISHED, row, difference)
        if row:
            return self._write(Kind.OPERATION_OPEN, row, difference, operation=operation.id)
        cell = str(operation.intent.get("cell", ""))
        subject = str(operation.intent.get("user", "")) or cell or operation.subject
        return write_finding(Kind.OPERATION_OPEN, difference, subject=subject, cell=cell, operation=operation.id)

    @cached_property
    def _of_instance(self) -> dict[InstanceId, Ordered]:
        return {row.instance.id: row for row in self.snapshot.rows}

    def of_stack(self, cell: CellName, stack: StackSnapshot) -> Iterator[Finding]:
        if stack.unseen:
            finding = write_finding(Kind.STACK_UNSEEN, stack.unseen, cell=cell)
            advised = tuple(Hint(part) for part in stack.hint.parts if isinstance(part, tuple))
            yield replace(finding, repair=advised or finding.repair)
        if stack.interrupted:
            difference = f"the last run of the stack was interrupted at {', '.join(stack.interrupted)}"
            yield write_finding(Kind.STACK_INTERRUPTED, difference, cell=cell)
        for name, resource in stack.machines.items():
            if name not in self.known and not self.snapshot.rented.has(name):
                difference = f"the stack holds machine {resource.id or name}; neither JustAVPS nor an instance has it"
                yield write_finding(Kind.ONLY_IN_STACK, difference, cell=cell, machine=name)

    def of_images(self) -> Iterator[Finding]:
        there = {image.id for image in self.snapshot.images if image.bootable}
        for image_id, name in self.snapshot.wanted_images.items():
            if image_id not in there:
                difference = f"new machines boot from {image_id}; JustAVPS does not have this image"
                yield write_finding(Kind.IMAGE_GONE, difference, subject=name, image=name)
        living = {row.instance.id for row in self.snapshot.rows}
        for image in self.snapshot.images:
            owner = owner_of(image.name, self.snapshot.environment)
            if owner is not None and owner not in living:
                difference = f"JustAVPS still stores image {image.id} of the terminated instance {owner}"
                yield write_finding(Kind.SNAPSHOT_LEFT, difference, subject=image.name, image=image.id, user=owner)

    def _write(self, kind: Kind, row: Ordered, difference: str, *, operation: str = "") -> Finding:
        instance = row.instance
        return write_finding(
            kind,
            difference,
            cell=instance.cell,
            machine=instance.machine_name,
            machine_id=instance.machine_id or "",
            user=instance.title,
            plan=instance.plan.value,
            operation=operation,
        )


_LOSSES = frozenset({Kind.MACHINE_MISSING, Kind.MACHINE_RESTORABLE})
"""Kinds that only a relocation repairs."""


def _price(machines: Sequence[Machine]) -> str:
    known = [Decimal(str(machine.price_monthly)) for machine in machines if machine.price_monthly is not None]
    if not known:
        return "price unknown"
    more = f" and {len(machines) - len(known)} of unknown price" if len(known) < len(machines) else ""
    return f"${sum(known):.2f} a month{more}"


_NAMED = 5
"""Tasks or checks that a finding names; there may be dozens."""

_LONGEST = 200


def machine_differences(
    instance: Instance, answer: MachineSnapshot, rebooted: Rebooted | None
) -> Iterator[tuple[Kind, str]]:
    """Compare an instance with the answers of its machine.

    Returns:
        Kind and text of each difference.
    """
    if answer.silence:
        yield Kind.SILENT, f"no answer: {answer.silence}"
        return
    if rebooted is not None:
        yield Kind.REBOOTED, f"rebooted since the last observation at {rebooted.since:%Y-%m-%d %H:%M} UTC"
    yield from _identity(instance, answer)
    if answer.changed:
        yield Kind.FILES_CHANGED, f"the roles would change: {_named(answer.changed)}"
    if answer.roles_unseen:
        yield Kind.ROLES_UNSEEN, answer.roles_unseen
    for kind, verdict in ((Kind.CHECK_FAILED, Verdict.FAILED), (Kind.CHECK_UNSEEN, Verdict.UNKNOWN)):
        if checks := [f"{check.name}: {check.seen}" for check in answer.checks if check.verdict is verdict]:
            yield kind, _named(checks)


def _named(several: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
    return "; ".join(text[:_LONGEST] for text in several[:_NAMED]) + more


def _identity(instance: Instance, answer: MachineSnapshot) -> Iterator[tuple[Kind, str]]:
    if answer.instance_id is None:
        if instance.status is InstanceStatus.RUNNING:
            yield Kind.NOT_PERSONALISED, "it reports no instance"
    elif answer.instance_id != instance.id:
        difference = f"the machine reports instance {answer.instance_id}, the registry has {instance.id}"
        yield Kind.FOREIGN_IDENTITY, f"{difference}; its data may belong to another user"
    elif not answer.is_current:
        yield Kind.PAYLOAD_DIFFERS, "its payload differs from the registry, or was only partly applied"


FIELDS = frozenset({"cell", "plan", "status", "user"})
"""Fields of a selector of findings."""


def machines_asked(snapshot: FleetSnapshot, selector: Selector) -> list[tuple[Ordered | None, Machine]]:
    """The machines to ask: of selected instances that no stopped operation changes, and orphans of their cells."""
    rows = [row for row in snapshot.rows if _is_meant(row, selector) and row.instance.id not in snapshot.changing]
    of_rows = [(row, machine) for row in rows if (machine := snapshot.machine_of(row))]
    orphans = [m for m in snapshot.orphans if selector.takes({"cell": cell_in_name(m.name) or ""})]
    return [*of_rows, *((None, orphan) for orphan in orphans)]


def narrowed(findings: Iterable[Finding], rows: Sequence[Ordered], selector: Selector) -> tuple[Finding, ...]:
    """Select findings by instance; findings without an instance by their cell."""
    of_machine: dict[str, Ordered] = {row.instance.machine_name: row for row in rows}

    def is_meant(finding: Finding) -> bool:
        row = of_machine.get(finding.machine)
        return _is_meant(row, selector) if row else selector.takes({"cell": finding.cell})

    return tuple(finding for finding in findings if is_meant(finding))


def _is_meant(row: Ordered, selector: Selector) -> bool:
    instance = row.instance
    fields = {"cell": instance.cell, "plan": instance.plan.value, "status": instance.status.value}
    return any(selector.takes({**fields, "user": name}) for name in {instance.user_alias, instance.user_id})
