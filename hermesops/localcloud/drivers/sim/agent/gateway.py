"""The gateway of a simulated machine: its systemd unit, its log, and its loaded settings. Its API is in ``api``.

It runs with what it read when it started, as the real one does: a file written later counts after a restart.

Source: hermes-agent 0.19.0's managed scope as hermes-node writes it, and its ``hermes_logging.py``.
"""

import json
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from hermesops.localcloud.drivers.sim.agent.release_faults import VARIABLE, ReleaseFault, Symptoms, release_faults_of
from hermesops.localcloud.drivers.sim.disk import AGENT_VERSION, HOME, PORT, UID, Disk
from hermesops.localcloud.drivers.sim.node.system import SimGate
from hermesops.localcloud.drivers.sim.store import Entry, Record, Store
from hermesops.programs.node.instance.render import OWN_KEY_VARIABLE, OWN_PROVIDER, PROVIDER, TOKEN_VARIABLE
from hermesops.wire.layout import DRAIN_MARKER, UNIT

_CONDITIONS = ("/etc/hermes-node/identity.json", "/etc/hermes-node/warm.json")
"""Conditions of the real unit: it starts only where one of these exists."""

_NEGATED_CONDITIONS = ("/etc/hermes-node/fenced", "/etc/hermes-node/restoring")
"""Conditions of the real unit: it does not start while one of these exists."""

MOOD = "/run/simulation/gateway"
"""A file that a person can write to make a gateway ``silent``, ``degraded``, ``crashed`` or just ``busy``, or its
messengers ``disconnected``."""


@dataclass
class State:
    """The stored state of a gateway.

    Attributes:
        boot: The boot that ``active`` and ``since`` are of.
        since: When it was started, in seconds since 1970.
        environment: The managed environment as it was read at the start.
        config: The managed configuration as it was read at the start.
    """

    enabled: bool = True
    active: bool = False
    boot: int = 0
    since: float = 0.0
    starts: int = 0
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    config: dict[str, Any] = field(default_factory=dict, repr=False)
    release: str = ""
    version: str = AGENT_VERSION
    jobs: list[dict[str, Any]] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class ModelAccess:
    """The agent's access to its model."""

    base_url: str
    token: str = field(repr=False)
    model: str


class Gateway:
    """The gateway of one machine; ``now`` gives seconds since 1970."""

    def __init__(self, store: Store, record: Record, disk: Disk, now: Callable[[], float]) -> None:
        self._store = store
        self._record = record
        self._disk = disk
        self._now = now
        stored = store.unit(record.id)
        self.state = State(**json.loads(stored)) if stored else State()
        self._release_faults: Mapping[ReleaseFault, float] | None = None

    # The unit

    @property
    def is_active(self) -> bool:
        """Whether the gateway's process runs on the machine."""
        return self.state.active and self.state.boot == self._record.boots and not self._has_crashed

    @property
    def _has_crashed(self) -> bool:
        return self.mood == "crashed" or (self.state.active and ReleaseFault.START in self.release_faults)

    def enable(self, *, enabled: bool) -> None:
        """Enable or disable the start at boot."""
        self.state.enabled = enabled
        self._keep()

    def start(self) -> None:
        """Start it unless it runs, or the conditions of its unit do not hold."""
        if (
            self.is_active
            or not any(map(self._disk.entry, _CONDITIONS))
            or any(map(self._disk.entry, _NEGATED_CONDITIONS))
        ):
            return
        self._disk.remove(MOOD)
        state = self.state
        state.active, state.boot, state.since, state.starts = True, self._record.boots, self._now(), state.starts + 1
        state.environment = self._environment()
        state.config = json.loads(self._text("/etc/hermes/config.yaml") or "{}")
        link = self._disk.entry("/opt/hermes/current")
        state.release = link.data.decode().rpartition("/")[2] if link else ""
        slot = json.loads(self._text(f"/opt/hermes/releases/{state.release}/release.json") or "{}")
        state.version = str(slot.get("hermes_agent") or AGENT_VERSION)
        self._release_faults = None
        self._keep()

    @property
    def release_faults(self) -> Mapping[ReleaseFault, float]:
        """Faults of the running release, with the amount of each."""
        if self._release_faults is None:
            text = self.state.environment.get(VARIABLE, "")
            self._release_faults = release_faults_of(text, self._record.id, self.state.release)
        return self._release_faults

    def stop(self) -> None:
        """Stop the gateway at once, without a drain."""
        self.state.active = False
        self._keep()

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The agent's cron jobs; a real one keeps them in its home."""
        return self.state.jobs

    def put_jobs(self, jobs: list[dict[str, Any]]) -> None:
        """Give the agent other cron jobs than it has."""
        self.state.jobs = jobs
        self._keep()

    def show(self) -> dict[str, str]:
        """The unit's properties, as ``systemctl show`` names them."""
        active, entered = self.is_active, self.state.since
        starting = active and self._now() < entered
        # One that ended by itself with 78 is failed, and is not started again.
        ended = "failed" if ReleaseFault.START in self.release_faults and self.state.active else "inactive"
        return {
            "Id": UNIT,
            "LoadState": "loaded",
            "ActiveState": ("activating" if starting else "active") if active else ended,
            "SubState": ("start" if starting else "running") if active else "dead",
            "Result": "signal" if self._has_crashed else "success",
            "MainPID": str(100 + self.state.starts) if active else "0",
            "NRestarts": str(self.symptoms.restarts) if active else "0",
            "MemoryCurrent": str(self.symptoms.memory_bytes) if active else "[not set]",
            "ExecMainStatus": "0",
            "ActiveEnterTimestampMonotonic": str(int(entered * 1e6)) if active and not starting else "0",
            "Type": "notify",
            "WatchdogUSec": "30s",
            "StatusText": "",
            "UnitFileState": "enabled" if self.state.enabled else "disabled",
            "ConditionResult": "yes" if self.state.starts else "no",
            "InvocationID": uuid5(NAMESPACE_OID, f"{self._record.id} {self.state.starts}").hex if active else "",
        }

    def _keep(self) -> None:
        self._store.put_unit(self._record.id, json.dumps(asdict(self.state)))

    def _text(self, path: str) -> str:
        entry = self._disk.entry(path)
        return entry.data.decode(errors="replace") if entry else ""

    @property
    def mood(self) -> str:
        """The content of ``MOOD``; empty for well."""
        return self._text(MOOD).strip()

    # The API

    def listens(self, port: int) -> bool:
        """Whether the gateway has that port of the loopback open."""
        is_up = self.is_active and self._now() >= self.state.since
        return port == PORT and is_up and self.mood != "silent"

    def admits(self, port: int) -> bool:
        """Whether processes other than hermes-node reach the API."""
        return self.listens(port) and self._text(SimGate.FILE) != str(port)

    def knows(self, key: str) -> bool:
        """Whether a bearer is the instance's API key."""
        return bool(key) and key == self.state.environment.get("API_SERVER_KEY")

    @property
    def is_draining(self) -> bool:
        """Whether the gateway refuses new turns."""
        return self._disk.entry(f"{HOME}/{DRAIN_MARKER}") is not None

    @property
    def model(self) -> ModelAccess:
        """URL, token and name of the gateway's model; of a user's own provider only one of the world is asked."""
        config = self.state.config
        model = config.get("model", {})
        own = str(model.get("provider", "")) == f"custom:{OWN_PROVIDER}"
        provider = config.get("providers", {}).get(OWN_PROVIDER if own else PROVIDER, {})
        url = str(provider.get("base_url", ""))
        return ModelAccess(
            base_url="" if own and url.startswith("https:") else url,
            token=self.state.environment.get(OWN_KEY_VARIABLE if own else TOKEN_VARIABLE, ""),
            model=str(model.get("default", "")),
        )

    @property
    def symptoms(self) -> Symptoms:
        """The symptoms of its release's faults now."""
        return Symptoms(self._record.id, self.release_faults, max(0.0, self._now() - self.state.since))

    def read_again(self) -> None:
        """Read the token and the model again, as the real one does at a turn."""
        self.state.environment[TOKEN_VARIABLE] = self._environment().get(TOKEN_VARIABLE, "")
        self.state.config["model"] = json.loads(self._text("/etc/hermes/config.yaml") or "{}").get("model", {})
        self._keep()

    def write_log(self) -> None:
        """Write the errors that its release has caused by now to its log, evenly spread, before a read."""
        errors = self.symptoms.errors
        if not self.is_active or not errors:
            return
        every_s = (self._now() - self.state.since) / errors
        timestamps = (time.localtime(self.state.since + number * every_s) for number in range(1, errors + 1))
        lines = (
            f"{time.strftime('%Y-%m-%d %H:%M:%S', each)},000 ERROR gateway.run: simulated\n" for each in timestamps
        )
        self._disk.put(f"{HOME}/logs", Entry(stat.S_IFDIR | 0o700, UID, UID, b""))
        self._disk.put(f"{HOME}/logs/errors.log", Entry(stat.S_IFREG | 0o600, UID, UID, "".join(lines).encode()))

    def _environment(self) -> dict[str, str]:
        pairs = (line.partition("=") for line in self._text("/etc/hermes/.env").splitlines())
        return {name: value.strip("'") for name, sign, value in pairs if sign}
