"""One computer that works on a registry at random.

Run ``python -m tests.support.crash.programs.registry_hammer URL ANCHOR SEED ROUNDS``. It prints a line for each fencing
token that it was given and for each error that is neither a refusal nor an absence of the database. What must hold
afterwards, whatever was killed on the way, is ``contradictions``.
"""

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hermesops.base.waiting import pause_blocking
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.access.token import ProxyToken
from hermesops.model.fleet.instance import InstanceSettings, InstanceStatus
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.model.operation import Lease, OperationKind, OperationStatus
from hermesops.store.registry import Registry
from hermesops.store.registry.audit.anchor import Anchor
from tests.support.real.stores.registries import placed, registry_at

ALIASES = ("ada", "bob", "eve")
SUBJECTS = ("stack/a", "stack/b", "stack/c")


class Computer:
    """Does one random thing after another.

    Args:
        registry: The shared one.
        name: Holder of its leases.
        seed: The same seed chooses the same things.
    """

    def __init__(self, registry: Registry, name: str, seed: int) -> None:
        self._registry = registry
        self._name = name
        self._chance = random.Random(seed)  # noqa: S311 - choices, no secrets
        self._held: dict[str, Lease] = {}

    def work(self, rounds: int) -> Iterator[str]:
        """Lines to print."""
        doings = (self._provision, self._move, self._end, self._lease, self._operate, self._keep, self._configure)
        for _ in range(rounds):
            try:
                yield from self._chance.choice(doings)()
            except (RefusedError, UsageError):
                continue  # the other computer was first
            except UnavailableError:
                pause_blocking(0.1)  # the database is being restarted

    def _instance(self) -> InstanceId:
        return self._registry.instances.find(self._chance.choice(ALIASES)).id

    def _provision(self) -> Iterable[str]:
        cell = CellName(f"cell{self._chance.randint(1, 2)}")
        placed(self._registry, self._chance.choice(ALIASES), cell=cell)
        return ()

    def _move(self) -> Iterable[str]:
        instance_id = self._instance()
        self._registry.instances.set_machine(instance_id, MachineId(f"m-{instance_id}-{self._chance.randint(1, 3)}"))
        self._registry.instances.set_status(
            instance_id, self._chance.choice((InstanceStatus.RUNNING, InstanceStatus.SUSPENDED))
        )
        return ()

    def _end(self) -> Iterable[str]:
        instance_id = self._instance()
        with self._alone(instance_id):
            if self._chance.random() < 0.3:
                self._registry.terminations.terminate(instance_id, why="random")
            else:
                self._registry.model_tokens.revoke(instance_id, why="random")
        return ()

    def _lease(self) -> Iterable[str]:
        subject = self._chance.choice(SUBJECTS)
        previous = self._held.pop(subject, None)
        if previous and self._chance.random() < 0.5:
            if not self._registry.leases.renew([previous]):
                self._held[subject] = previous
        elif previous:
            self._registry.leases.release(previous)
        else:
            self._held[subject] = lease = self._registry.leases.take(subject, self._name)
            return (f"token {subject} {lease.epoch} {lease.counter}",)
        return ()

    def _operate(self) -> Iterable[str]:
        subject = self._chance.choice(SUBJECTS)
        operation = self._registry.operations.open(OperationKind.STACK_UP, subject)
        self._registry.operations.record_step(
            operation.id, f"step {self._chance.random()}", lease=self._held.get(subject)
        )
        if self._chance.random() < 0.5:
            ended = self._chance.choice((OperationStatus.DONE, OperationStatus.FAILED))
            self._registry.operations.finish(operation.id, ended, "over", lease=self._held.get(subject))
        return ()

    def _keep(self) -> Iterable[str]:
        machine_id = MachineId(f"m-{self._instance()}-1")
        expires_at = datetime.now(UTC) + timedelta(hours=1)
        token = ProxyToken(str(self._chance.random()), machine_id, "platform", expires_at, "secret")
        self._registry.proxy_tokens.keep(token)
        self._registry.connections.connect(self._instance(), "google", access_token="secret")
        return ()

    def _configure(self) -> Iterable[str]:
        instance_id = self._instance()
        settings = InstanceSettings(personality=f"{self._chance.random()}")
        with self._alone(instance_id) as lease:
            if self._registry.instances.get(instance_id).status is not InstanceStatus.TERMINATED:
                operation = self._registry.settings_changes.change(
                    instance_id, settings, subject=lease.subject, intent={}, why="random"
                )
                self._registry.operations.finish(operation.id, OperationStatus.DONE, "over", lease=lease)
        return ()

    @contextmanager
    def _alone(self, instance_id: InstanceId) -> Iterator[Lease]:
        """Hold the lease of an instance, as whoever changes one does."""
        lease = self._registry.leases.take(f"instance/{instance_id}", self._name)
        try:
            yield lease
        finally:
            self._registry.leases.release(lease)


def contradictions(registry: Registry, anchors: Iterable[Anchor], output: Iterable[str]) -> list[str]:
    """What does not hold of a registry that several computers worked on.

    Args:
        registry: Opened without guard and anchor of its own.
        anchors: Those of all computers.
        output: Every line that any computer printed.
    """
    findings = [f"{finding.subject} {finding.what}" for finding in registry.consistency.contradictions()]
    for anchor in anchors:
        findings += [f"audit {finding.id} {finding.what}" for finding in registry.audit.check(anchor).findings]
    lines = [line.split() for line in output]
    findings += [" ".join(line) for line in lines if line[0] != "token"]
    tokens = Counter(tuple(line) for line in lines)
    findings += [f"given twice: {token}" for token, count in tokens.items() if count > 1]
    return [*findings, *_unaudited(registry)]


def _unaudited(registry: Registry) -> Iterator[str]:
    """Rows that changed without an entry, and entries of changes that did not happen."""
    entries = registry.audit.list(limit=10**9)
    actions = Counter(entry.action for entry in entries)
    instances = registry.instances.list(terminated=True)
    operations = registry.operations.list(limit=10**9)
    counts = {
        "instance_created": len(instances),
        "user_created": len(registry.users.list()),
        "cell_opened": len(registry.cells.list()),
        "operation_opened": len(operations),
        "operation_ended": sum(operation.status.has_ended for operation in operations),
    }
    yield from (f"{actions[name]} {name} for {count} rows" for name, count in counts.items() if actions[name] != count)
    last: dict[tuple[str, str], object] = defaultdict(lambda: None)
    for entry in reversed(entries):
        if entry.action in {"status_changed", "machine_set"}:
            before = last[entry.action, entry.subject]
            if before is not None and before != dict(entry.before):
                yield f"audit {entry.id} goes on from {entry.before}, not from {before}"
            last[entry.action, entry.subject] = dict(entry.after)
    for instance in instances:
        recorded = last["status_changed", f"instance/{instance.id}"]
        if recorded is not None and recorded != {"status": instance.status.value}:
            yield f"instance {instance.id} is {instance.status}, and the audit says {recorded}"


def main() -> None:
    url, anchor, seed, rounds = sys.argv[1:]
    registry = registry_at(url, anchor=Anchor(Path(anchor)))
    for line in Computer(registry, f"computer-{seed}", int(seed)).work(int(rounds)):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    registry.close()


if __name__ == "__main__":
    main()
