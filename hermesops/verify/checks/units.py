"""What systemd says of the units that promises are about."""

from testinfra.host import Host

from hermesops.verify.checks.promise import broken_unless, output_of

GATEWAY = "hermes-gateway.service"
DAEMON = "justavps-daemon.service"
SANDBOX = "hermes-sandbox@verify.service"

_UNITS = (
    DAEMON,
    GATEWAY,
    "hermes-sandbox.socket",
    SANDBOX,
    "hermes-firewall.service",
    "hermes-identity.service",
    "hermes-certificate.timer",
    "ssh.service",
    "ssh.socket",
)
_PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "UnitFileState",
    "MainPID",
    "User",
    "MemoryCurrent",
    "MemoryMax",
    "TasksMax",
    "LimitAS",
    "RuntimeMaxUSec",
    "RestrictAddressFamilies",
    "NoNewPrivileges",
    "ProtectSystem",
    "ProtectHome",
    "PrivateTmp",
    "PrivateDevices",
    "PrivateUsers",
    "RestrictNamespaces",
    "CapabilityBoundingSet",
)


def unit(host: Host, name: str) -> dict[str, str]:
    """What systemd says of a unit. All are asked for in one command: each would cost a machine as much as all."""
    shown = output_of(host, f"systemctl show {' '.join(_UNITS)} --property={','.join(_PROPERTIES)}")
    units = (dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in shown.split("\n\n"))
    return next(found for found in units if found.get("Id") == name)


def running(host: Host, name: str) -> str:
    """What is seen of a unit that should run, and after every boot.

    Raises:
        BrokenPromiseError: It does not.
    """
    shown = unit(host, name)
    broken_unless(shown.get("ActiveState") == "active", f"{name} is {shown.get('ActiveState')}")
    broken_unless(shown.get("UnitFileState") == "enabled", f"{name} is {shown.get('UnitFileState') or 'not enabled'}")
    return "running, enabled"


def as_promised(shown: dict[str, str], promised: dict[str, str]) -> None:
    """Go on if a unit has these properties.

    Raises:
        BrokenPromiseError: It has not.
    """
    wrong = [
        f"{name}={shown.get(name, '')}, not {value}" for name, value in promised.items() if shown.get(name) != value
    ]
    broken_unless(not wrong, "; ".join(wrong))
