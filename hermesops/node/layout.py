"""Where things are on a machine; everything below one root, so that a test can have a machine in a folder."""

from dataclasses import dataclass
from pathlib import Path

from hermesops.node.protocol import PROGRAM, VARIABLES

UNIT = "hermes-gateway.service"
"""The gateway's unit, as releases bring it."""

DRAIN_MARKER = ".drain_request.json"
"""In the agent's home; it would outlive a reboot, so whoever starts a gateway removes it."""


@dataclass(frozen=True)
class Layout:
    """Paths of one machine.

    Attributes:
        root: ``/``, or a folder that plays it.
    """

    root: Path = Path("/")

    @property
    def base(self) -> Path:
        """What role ``hermes_gateway`` says about every instance: the base configuration."""
        return self.root / "etc/hermes-node/gateway.json"

    @property
    def identity(self) -> Path:
        """Whose machine this is; the gateway's unit starts only where it exists."""
        return self.root / "etc/hermes-node/identity.json"

    @property
    def payload(self) -> Path:
        """The payload last accepted, with its secrets: what ``configure`` renders again."""
        return self.root / "etc/hermes-node/instance.json"

    @property
    def warm(self) -> Path:
        """What a machine without a user runs with; the gateway's unit starts where it exists, too."""
        return self.root / "etc/hermes-node/warm.json"

    @property
    def applied(self) -> Path:
        """What was given to the user once and is theirs since (persona, cron jobs)."""
        return self.root / "etc/hermes-node/applied.json"

    @property
    def lease(self) -> Path:
        """The highest fencing token that was ever shown to this machine."""
        return self.root / "etc/hermes-node/lease.json"

    @property
    def machine_key(self) -> Path:
        """The machine's own private key, made at its first boot; it never leaves the machine."""
        return self.root / "etc/hermes-node/machine.key"

    @property
    def machine_request(self) -> Path:
        """What a certificate for that key is asked for with."""
        return self.root / "etc/hermes-node/machine.csr"

    @property
    def machine_certificate(self) -> Path:
        """The certificate that the platform's authority gave the machine, PEM after one line about it."""
        return self.root / "etc/hermes-node/machine.crt"

    @property
    def authority(self) -> Path:
        """The authorities that the platform's own certificate may be signed by, PEM."""
        return self.root / "etc/hermes-node/authority.crt"

    @property
    def managed(self) -> Path:
        """hermes-agent's managed scope: what is in it wins over the user's own files."""
        return self.root / "etc/hermes"

    @property
    def current(self) -> Path:
        """Link to the running slot."""
        return self.root / "opt/hermes/current"

    @property
    def releases(self) -> Path:
        """The slots, by the id of the release in them."""
        return self.root / "opt/hermes/releases"

    @property
    def blobs(self) -> Path:
        """Files of releases, by their SHA-256; what is uploaded comes into ``incoming`` below it."""
        return self.root / "opt/hermes/blobs"

    def fetched(self, release: str) -> Path:
        """The lock of a release that was fetched: its signature held."""
        return self.root / f"etc/hermes-node/release-{release}.json"

    @property
    def signers(self) -> Path:
        """Whose signatures on releases count on this machine."""
        return self.root / "etc/hermes-node/release-signers"

    @property
    def revocations(self) -> Path:
        """The newest revocations that this machine was shown."""
        return self.root / "etc/hermes-node/revocations.json"

    @property
    def activation(self) -> Path:
        """A change of release that is not over; hermes-release.service looks for it."""
        return self.root / "etc/hermes-node/activation.json"

    @property
    def activation_boot(self) -> Path:
        """Exists while the boot lasts that the change of release began in."""
        return self.root / "run/hermes-node/activation"

    @property
    def activation_cancelled(self) -> Path:
        """Exists once somebody has asked that the change of release under way be given up before it switches."""
        return self.root / "run/hermes-node/cancelled"

    @property
    def release_history(self) -> Path:
        """What came of the last change of release, and which slot was before."""
        return self.root / "etc/hermes-node/releases.json"

    def rollback_file(self, name: str) -> Path:
        """A file as it was, or shall be, with the slot that is gone back to; it only has to be renamed."""
        return self.managed / f".back.{name}"

    @property
    def back(self) -> Path:
        """Link to the slot that is gone back to; exists until that has happened."""
        return self.root / "opt/hermes/back"

    def unit(self, name: str) -> Path:
        """A unit of systemd."""
        return self.root / "etc/systemd/system" / name

    @property
    def release_lock(self) -> Path:
        """Held by whoever fetches, installs or tries a release."""
        return self.root / "run/hermes-node/release-lock"

    @property
    def lock(self) -> Path:
        """Held by whoever changes this machine."""
        return self.root / "run/hermes-node/lock"

    @property
    def unread(self) -> Path:
        """Exists while the agent was not seen to read the router's token that was written for it; on a tmpfs too."""
        return self.root / "run/hermes-node/token-unread"

    @property
    def stale(self) -> Path:
        """Exists while the gateway runs with older managed files; on a tmpfs, since a reboot restarts the gateway."""
        return self.root / "run/hermes-node/restart-needed"

    @property
    def program(self) -> Path:
        """hermes-node itself."""
        return self.root / PROGRAM.lstrip("/")

    @property
    def fence(self) -> Path:
        """Exists while this machine's gateway must not start; the gateway's unit looks for it."""
        return self.root / "etc/hermes-node/fenced"

    @property
    def restoring(self) -> Path:
        """Exists while another state, or another slot, is put in place; the gateway's unit looks for it."""
        return self.root / "etc/hermes-node/restoring"

    @property
    def variables(self) -> Path:
        """The variables of this machine's order, as the vendor wrote them."""
        return self.root / VARIABLES.lstrip("/")

    @property
    def data_file(self) -> Path:
        """What an encrypted data volume is kept in."""
        return self.root / "var/lib/hermes-data/volume"

    @property
    def data_unit(self) -> Path:
        """What opens the data volume at boot; role ``hermes_data`` brings it."""
        return self.root / "etc/systemd/system/hermes-data.service"

    @property
    def data_lock(self) -> Path:
        """Held by whoever opens the data volume."""
        return self.root / "run/hermes-node/data-lock"

    @property
    def data_told(self) -> Path:
        """Why the data volume is not open yet."""
        return self.root / "run/hermes-node/data.json"

    @property
    def container(self) -> Path:
        """Exists on a machine that is a container, which can mount nothing; systemd writes it."""
        return self.root / "run/systemd/container"

    def home(self, path: str) -> Path:
        """The agent's home as the base configuration names it."""
        return self.root / path.lstrip("/")
