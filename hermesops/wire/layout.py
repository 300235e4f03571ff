"""Paths on a machine, all below one root, so that a test can have a machine in a folder."""

from dataclasses import dataclass
from pathlib import Path

from hermesops.wire.protocol import PROGRAM, VARIABLES

UNIT = "hermes-gateway.service"
"""The gateway's unit, as releases bring it."""

DRAIN_MARKER = ".drain_request.json"
"""In the agent's home; it would outlive a reboot, so whoever starts a gateway removes it."""

BREAK_GLASS_UNIT = "hermes-break-glass.service"
"""Runs sshd while an order to break the glass is valid; written then, and gone with the next boot."""

TRIAL_STATE = Path("/run/hermes-node/trial-state")
"""Where the copy of the state is mounted during a trial: below folders that are root's alone."""


class _Below:
    """A path below the layout's root."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, layout: "Layout", _owner: type["Layout"]) -> Path:
        return layout.root / self._path


@dataclass(frozen=True)
class Layout:
    """Paths of one machine.

    Attributes:
        root: ``/``, or a folder that stands for it.
    """

    root: Path = Path("/")

    base = _Below("etc/hermes-node/gateway.json")
    """The base configuration of every instance, written by role ``hermes_gateway``."""

    identity = _Below("etc/hermes-node/identity.json")
    """Which instance the machine belongs to; the gateway's unit starts only where it exists."""

    payload = _Below("etc/hermes-node/instance.json")
    """The payload last accepted, with its secrets: what ``configure`` renders again."""

    warm = _Below("etc/hermes-node/warm.json")
    """The placeholder payload of a machine without a user; the gateway's unit starts where it exists, too."""

    applied = _Below("etc/hermes-node/applied.json")
    """What was given to the user once and is theirs since (persona, cron jobs)."""

    lease = _Below("etc/hermes-node/lease.json")
    """The highest fencing token that this machine has seen."""

    machine_key = _Below("etc/hermes-node/machine.key")
    """The machine's own private key, made at its first boot; it never leaves the machine."""

    machine_request = _Below("etc/hermes-node/machine.csr")
    """The certificate signing request for that key."""

    machine_certificate = _Below("etc/hermes-node/machine.crt")
    """The certificate that the platform's authority gave the machine, PEM after one line about it."""

    authority = _Below("etc/hermes-node/authority.crt")
    """The authorities that the platform's own certificate may be signed by, PEM."""

    public_authorities = _Below("etc/ssl/certs/ca-certificates.crt")
    """The distribution's: those that anybody's certificate may be signed by, PEM."""

    router_authorities = _Below("etc/hermes-router-authorities.crt")
    """The public ones and the platform's: whatever the model router's certificate may be signed by, PEM. The agent
    reads it at each turn, so it lies outside of folders that are root's alone."""

    managed = _Below("etc/hermes")
    """hermes-agent's managed scope: what is in it wins over the user's own files."""

    current = _Below("opt/hermes/current")
    """Link to the running slot."""

    back = _Below("opt/hermes/back")
    """Link to the slot to roll back to; exists until that has happened."""

    releases = _Below("opt/hermes/releases")
    """The slots, by the id of the release in them."""

    blobs = _Below("opt/hermes/blobs")
    """Files of releases, by their SHA-256; what is uploaded comes into ``incoming`` below it."""

    signers = _Below("etc/hermes-node/release-signers")
    """Whose signatures on releases this machine accepts."""

    revocations = _Below("etc/hermes-node/revocations.json")
    """The newest revocations that this machine has seen."""

    activation = _Below("etc/hermes-node/activation.json")
    """An unfinished change of release; hermes-release.service waits for it."""

    activation_boot = _Below("run/hermes-node/activation")
    """Exists during the boot in which the change of release began."""

    activation_cancelled = _Below("run/hermes-node/cancelled")
    """Exists once somebody has asked to cancel the running change of release before it switches."""

    release_history = _Below("etc/hermes-node/releases.json")
    """The outcome of the last change of release, and which slot ran before."""

    release_lock = _Below("run/hermes-node/release-lock")
    """Held while a release is fetched, installed or tried."""

    lock = _Below("run/hermes-node/lock")
    """Held while this machine is changed."""

    unread = _Below("run/hermes-node/token-unread")
    """Exists until the agent was seen to read the router's token that was written for it; on a tmpfs too."""

    stale = _Below("run/hermes-node/restart-needed")
    """Exists while the gateway runs with older managed files; on a tmpfs, since a reboot restarts the gateway."""

    program = _Below(PROGRAM.lstrip("/"))
    """hermes-node itself."""

    orders_lock = _Below("run/hermes-node/orders-lock")
    """Held while orders of the platform are carried out."""

    ingest = _Below("etc/hermes-monitoring/ingest.env")
    """Where metrics and logs go; what sends them starts only where it exists."""

    break_glass = _Below("run/hermes-node/break-glass.json")
    """Exists while sshd is open for an operator; says for whom, and until when."""

    break_glass_config = _Below("run/hermes-node/break-glass-sshd")
    """The configuration of that sshd."""

    break_glass_keys = _Below("run/hermes-node/break-glass-keys")
    """The one key that may log in."""

    break_glass_unit = _Below(f"run/systemd/system/{BREAK_GLASS_UNIT}")
    """The unit of that sshd."""

    break_glass_spent = _Below("etc/hermes-node/break-glass-spent.json")
    """Ids of the orders that opened sshd once."""

    ssh_host_key = _Below("etc/hermes-node/ssh_host_ed25519_key")
    """The private host key of that sshd, made by the machine."""

    ssh_host_public = _Below("etc/hermes-node/ssh_host_ed25519_key.pub")
    """Its public half, by which the platform knows it."""

    clock = _Below("run/hermes-node/clock.json")
    """By how many seconds the platform's clock was ahead of this machine's, and when that was found."""

    fence = _Below("etc/hermes-node/fenced")
    """Exists while this machine's gateway must not start; the gateway's unit checks it."""

    restoring = _Below("etc/hermes-node/restoring")
    """Exists while another state, or another slot, is put in place; the gateway's unit checks it."""

    variables = _Below(VARIABLES.lstrip("/"))
    """The variables of this machine's order, as the vendor wrote them."""

    data_file = _Below("var/lib/hermes-data/volume")
    """The file that holds the encrypted data volume."""

    data_unit = _Below("etc/systemd/system/hermes-data.service")
    """The unit that opens the data volume at boot; role ``hermes_data`` installs it."""

    data_lock = _Below("run/hermes-node/data-lock")
    """Held while the data volume is opened."""

    data_state = _Below("run/hermes-node/data.json")
    """Why the data volume is not open yet."""

    last_backup = _Below("etc/hermes-node/last-backup.json")
    """When the state was last backed up from here, and of which instance."""

    state_replaced = _Below("run/hermes-node/state-replaced.json")
    """When the agent's state was last replaced by a copy; on a tmpfs, as the counters of ``metrics`` are."""

    recoveries = _Below("run/hermes-node/recoveries.json")
    relief = _Below("run/hermes-node/relief.json")
    """When ``recover`` started the gateway; on a tmpfs, since a boot begins anew."""

    last_turn = _Below("run/hermes-node/last-turn.json")
    """The outcome of the last turn that ``probe`` took."""

    metrics = _Below("run/hermes-metrics/hermes.prom")
    """The metrics, as node_exporter reads them."""

    database_check = _Below("run/hermes-metrics/databases.json")
    """The result of the last check of the agent's databases."""

    metrics_memory = _Below("run/hermes-metrics/memory.json")
    """What one run of ``metrics`` remembers for the next."""

    os_release = _Below("usr/lib/os-release")
    """What distribution this is; the file in /etc is a link."""

    container = _Below("run/systemd/container")
    """Exists on a machine that is a container, which can mount nothing; systemd writes it."""

    def fetched(self, release: str) -> Path:
        """The lock of a release that was fetched: its signature was verified."""
        return self.root / f"etc/hermes-node/release-{release}.json"

    def rollback_file(self, name: str) -> Path:
        """A staged file of the slot to roll back to; a rollback only renames it."""
        return self.managed / f".back.{name}"

    def unit(self, name: str) -> Path:
        """The file of a systemd unit."""
        return self.root / "etc/systemd/system" / name

    def home(self, path: str) -> Path:
        """The agent's home as the base configuration names it."""
        return self.root / path.lstrip("/")
