"""What a run did to each host. Pure: no file, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hermesops.errors import HermesError, PartlyDoneError, UnavailableError


@dataclass(frozen=True)
class TaskFailure:
    """The task that ended a host's run.

    Attributes:
        task: Its name, with its role's before it where it is of one.
        message: What the module said; of a task with ``no_log`` only that it is withheld.
        stderr: The end of its error output; may be empty.
    """

    task: str
    message: str
    stderr: str = ""


@dataclass(frozen=True)
class HostResult:
    """What became of one host.

    Attributes:
        status: ``unreachable`` says nothing about the host's state; ``failed`` that it is halfway.
        ok: Tasks that were as they should be, or were made so.
        changed: Names of the tasks that changed something, in order.
    """

    host: str
    status: Literal["done", "failed", "unreachable"]
    ok: int
    skipped: int
    changed: tuple[str, ...]
    failure: TaskFailure | None = None


@dataclass(frozen=True)
class Converged:
    """What became of all hosts of a run.

    Attributes:
        seconds: How long the run took.
        output: The last lines that Ansible printed, for people.
    """

    playbook: str
    hosts: Mapping[str, HostResult]
    seconds: float
    output: str = ""

    @property
    def ok(self) -> bool:
        """Whether every host is as the playbook says."""
        return all(host.status == "done" for host in self.hosts.values())

    @property
    def changed(self) -> int:
        """How many tasks changed something, on all hosts together."""
        return sum(len(host.changed) for host in self.hosts.values())

    def require_ok(self) -> None:
        """Do nothing when every host is done.

        Raises:
            UnavailableError: No host could be reached; nothing changed.
            PartlyDoneError: A host failed; the message names each with its task.
        """
        bad = [host for host in self.hosts.values() if host.status != "done"]
        if not bad:
            return
        told = "; ".join(_told(host) for host in bad)
        kind: type[HermesError] = PartlyDoneError
        if len(bad) == len(self.hosts) and all(host.status == "unreachable" and not host.changed for host in bad):
            kind = UnavailableError
        raise kind(
            f"{self.playbook}: {len(bad)} of {len(self.hosts)} machines are not done: {told}",
            hint="repeat the same command once the cause is gone: what is done already is left alone",
        )


def _told(host: HostResult) -> str:
    if host.failure is None:
        return f"{host.host}: {host.status}"
    said = " ".join(f"{host.failure.message} {host.failure.stderr}".split())
    return f"{host.host}: {host.status} at {host.failure.task!r}: {said[:400]}"
