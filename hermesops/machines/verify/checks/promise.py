"""Promises: named functions that check one property of a machine through testinfra; and their helpers."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

from testinfra.host import Host

from hermesops.errors import Hint
from hermesops.model.fleet.instance import Instance

CONVERGE = Hint(("fleet", "converge", "USER"), "repairs drift")


@dataclass(frozen=True)
class Expected:
    """Expected values of a machine, from the registry.

    Attributes:
        instance_id: Empty for a machine without an instance.
        key_digest: SHA-256 of the instance's API key; empty when it is not compared.
        session: Name of the session of the chat check, fresh for each verification.
    """

    instance_id: str
    epoch: int = 0
    key_digest: str = ""
    session: str = field(default_factory=lambda: f"hermesops-verify-{uuid4().hex[:12]}")

    @classmethod
    def of(cls, instance: Instance, *, api_server_key: str) -> "Expected":
        """Expected values of an instance's machine; stores a digest instead of the key."""
        return cls(instance.id, instance.epoch, hashlib.sha256(api_server_key.encode()).hexdigest())


class BrokenPromiseError(Exception):
    """A promise is broken; the message is the observation."""


class WorthALookError(Exception):
    """No promise is broken, and somebody should look; the message is the observation."""


MachineCheck = Callable[[Host, Expected], str]
"""Checks a machine; returns what it saw, or raises ``BrokenPromiseError`` or ``WorthALookError``.

It runs all its commands before it judges any answer, and the commands do not depend on answers: so all are known
beforehand and run in one batch.
"""


@dataclass(frozen=True)
class Promise:
    """One thing that holds on every machine.

    Attributes:
        name: Stable; programs tell checks apart by it.
        slow: Whether the check takes a second or more.
    """

    name: str
    title: str
    observe: MachineCheck
    hint: Hint
    slow: bool = False


class UnseenError(Exception):
    """A command of the check did not work, so the result is unknown."""


def output_of(host: Host, command: str) -> str:
    """The output of a command that must work.

    Raises:
        UnseenError: It did not.
    """
    done = host.run(command)
    if done.rc:
        errors = done.stderr.strip().splitlines()
        raise UnseenError(f"{' '.join(command.split()[:3])} ended with {done.rc}{': ' + errors[-1] if errors else ''}")
    return str(done.stdout)


def broken_unless(holds: object, problem: str) -> None:
    """Fail the check unless something holds.

    Raises:
        BrokenPromiseError: It does not.
    """
    if not holds:
        raise BrokenPromiseError(problem)


def warn_unless(holds: object, problem: str) -> None:
    """Warn unless something holds.

    Raises:
        WorthALookError: It does not.
    """
    if not holds:
        raise WorthALookError(problem)


def modes(host: Host, paths: dict[str, str]) -> str:
    """Check owners and modes of paths, as ``root:root 600``.

    Raises:
        BrokenPromiseError: They have others, or are absent.
    """
    listed = host.run(f"stat --format='%n %U:%G %a' {' '.join(paths)}").stdout.splitlines()
    mode_of = dict(line.split(" ", 1) for line in listed)
    wrong = [
        f"{path} is {mode_of.get(path, 'absent')}, not {mode}"
        for path, mode in paths.items()
        if mode_of.get(path) != mode
    ]
    broken_unless(not wrong, "; ".join(wrong))
    return f"{len(paths)} as specified"


GATEWAY = "hermes-gateway.service"
DAEMON = "justavps-daemon.service"
SANDBOX = "hermes-sandbox@verify.service"

_UNITS = (
    *(DAEMON, GATEWAY, SANDBOX, "hermes-sandbox.socket", "hermes-firewall.service", "hermes-identity.service"),
    *("hermes-certificate.timer", "hermes-databases.timer", "hermes-metrics.timer", "hermes-orders.timer"),
    *("hermes-recovery.timer", "hermes-monitoring.target", "ssh.service", "ssh.socket"),
)
_PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "UnitFileState", "MainPID", "User", "MemoryCurrent", "MemoryMax", "TasksMax"),
    *("LimitAS", "RuntimeMaxUSec", "RestrictAddressFamilies", "NoNewPrivileges", "ProtectSystem", "ProtectHome"),
    *("PrivateTmp", "PrivateDevices", "PrivateUsers", "RestrictNamespaces", "CapabilityBoundingSet"),
    "DropInPaths",
)


def unit(host: Host, name: str) -> dict[str, str]:
    """Properties of a systemd unit. One command asks for all units: one alone costs a machine as much."""
    shown = output_of(host, f"systemctl show {' '.join(_UNITS)} --property={','.join(_PROPERTIES)}")
    units = (dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in shown.split("\n\n"))
    return next(properties for properties in units if properties.get("Id") == name)


def running(host: Host, name: str) -> str:
    """Check that a unit runs, and starts at boot.

    Raises:
        BrokenPromiseError: It does not.
    """
    shown = unit(host, name)
    broken_unless(shown.get("ActiveState") == "active", f"{name} is {shown.get('ActiveState')}")
    broken_unless(shown.get("UnitFileState") == "enabled", f"{name} is {shown.get('UnitFileState') or 'not enabled'}")
    return "running, enabled"


def as_promised(shown: dict[str, str], promised: dict[str, str]) -> None:
    """Check properties of a unit.

    Raises:
        BrokenPromiseError: They differ.
    """
    wrong = [
        f"{name}={shown.get(name, '')}, not {value}" for name, value in promised.items() if shown.get(name) != value
    ]
    broken_unless(not wrong, "; ".join(wrong))
