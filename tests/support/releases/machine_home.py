"""A machine in a folder with two releases, whose hermes-node may be killed at any of its effects."""

import hashlib
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.ports import Trial, TrialResult
from hermesops.programs.node.release import config_migration
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.programs.node.release.slots.slot import record_of_lock, schema_of
from hermesops.programs.node.state import user_config
from hermesops.programs.node.state.config_changes import SettingsResult
from hermesops.programs.node.state.snapshots import RestoreResult
from hermesops.programs.node.system import files as real_files
from hermesops.programs.node.system.as_user import AgentHome
from hermesops.wire.documents.handout import Handout, Signed
from hermesops.wire.documents.lock import Blob, Lock, Managed, Node, Wheels
from hermesops.wire.documents.signers import AllowedSigners, Kind
from hermesops.wire.errors import RefusedError
from hermesops.wire.layout import UNIT, Layout
from hermesops.wire.protocol import Check
from tests.support.crash.death import Death, Mortal
from tests.support.fakes.machines import node_home
from tests.support.fakes.machines.node_home import NodeHome
from tests.support.fakes.machines.node_system import KEY, ApiRequest, FakeSystem, next_of
from tests.support.releases.signer_lines import lines_of, names_in

WATCH = "hermes-release.service"


@dataclass
class GatewaySystem(FakeSystem):
    """A gateway that runs whatever slot is current when it starts, and says so.

    Attributes:
        sick: Releases whose gateway does not come up.
        key: Bearer of its API.
        ran: The releases that were started, in order.
        watched: Whether hermes-release.service was started.
    """

    layout: Layout = field(default_factory=Layout)
    sick: set[str] = field(default_factory=set)
    key: str = KEY
    ran: list[str] = field(default_factory=list)
    watched: bool = False
    runs: str = ""

    def control(self, *words: str) -> str:
        match words:
            case ("start", *_, name):
                if name == WATCH:
                    self.watched = True
                elif not self.running and not self.layout.restoring.exists():
                    self.running, self.runs = True, self.layout.current.readlink().name
                    self.ran.append(self.runs)
            case ("stop", config_migration.SERVICE):
                pass
            case ("stop" | "kill", *_):
                self.stopped += 1
                self.running = False
            case ("show", *_):
                return self.shown()
        return ""

    def answer(self, request: ApiRequest) -> Answer:
        if not self.running or self.runs in self.sick:
            return Answer(0, "refused")
        if request.path == "/health":
            return Answer(200, {})
        assert request.key == self.key
        if request.path == "/v1/runs" and request.body:
            return Answer(202, {"run_id": "r1"})
        bodies: dict[str, Any] = {
            "/health/detailed": {"status": "ok", "active_agents": next_of(self.work)},
            "/api/jobs": {"jobs": self.jobs},
            "/api/sessions?limit=1": {"data": []},
            "/v1/toolsets": {"data": [{"enabled": True, "tools": ["terminal"]}]},
            "/v1/runs/r1": {"status": "completed", "output": "pong"},
        }
        return Answer(200, bodies.get(request.path, {}))


class FolderSlots(DiskSlots):
    """Slots in a folder; nothing is installed in them, and who signs is written in the signature."""

    def __init__(self, layout: Layout, system: GatewaySystem) -> None:
        super().__init__(layout)
        self._system = system
        self.tried = TrialResult((Check("health", ok=True),))
        self.trials: list[Trial] = []

    def python(self) -> str:
        return "3.11"

    def verify(self, data: bytes, signature: str, signers: str, kind: Kind, /) -> str:
        who, _, what = signature.partition(":")
        if who not in names_in(signers) or what != f"{kind}:{len(data)}":
            raise RefusedError("the signature does not hold")
        return who

    def install(self, lock: Lock, record: bytes, /) -> None:
        slot = self.layout.releases / lock.id
        slot.mkdir(exist_ok=True)
        (slot / UNIT).write_text(f"[Service]\n# of {lock.id}\n")
        (slot / "release.json").write_bytes(record)

    def point(self, link: str, target: str, /) -> None:
        assert link != "current" or not self._system.running, "never under a gateway that runs"
        super().point(link, target)

    def rename(self, source: Path, target: Path, /) -> bool:
        assert target.name != "current" or not self._system.running, "never under a gateway that runs"
        return super().rename(source, target)

    def run_trial(self, trial: Trial, /) -> TrialResult:
        self.trials.append(trial)
        return self.tried

    def migrate(self, home: AgentHome, slot: Path, unit: str, /) -> None:
        assert unit
        assert not self._system.running, "never under a gateway that runs"
        schema = schema_of(json.loads((slot / "release.json").read_text()))
        (home.path / "config.yaml").write_text(f"_config_version: {schema}\n")

    def update_node(self, program: Blob, /) -> str:
        del program
        return ""


@dataclass
class TextState:
    """The agent's state as one file of text, of which the old release reads only what it wrote.

    Attributes:
        text: Where it is.
    """

    text: Path
    system: GatewaySystem

    def keep(self, home: AgentHome, name: str) -> None:
        del home
        assert not self.system.running
        shutil.copyfile(self.text, self.text.with_name(f"kept-{name}"))

    def preview(self, home: AgentHome, name: str) -> RestoreResult:
        del home
        if not self.text.with_name(f"kept-{name}").exists():
            return RestoreResult()
        return RestoreResult(1, self.text.read_text().count("strange"), f"kept-{name}")

    def keep_config(self, home: AgentHome) -> None:
        assert not self.system.running
        user_config.keep(home.path)

    def keep_migrated_config(self, home: AgentHome) -> None:
        assert not self.system.running
        user_config.keep_migrated(home.path)

    def take_config_back(self, home: AgentHome, schema: int) -> RestoreResult:
        assert not self.system.running, "never under a gateway that runs"
        settings = user_config.take_back(home.path, schema) or SettingsResult()
        return RestoreResult(settings_migrated=settings.migrated, settings_lost=settings.lost)

    def preview_config(self, home: AgentHome, schema: int) -> RestoreResult:
        settings = user_config.preview(home.path, schema)
        return RestoreResult(settings_migrated=settings.migrated, settings_lost=settings.lost)

    def restore(self, home: AgentHome, name: str) -> RestoreResult:
        del home
        kept = self.text.with_name(f"kept-{name}")
        if kept.exists():
            assert not self.system.running, "never under a gateway that runs"
            self.text.rename(self.text.with_name(f"newer-{name}"))
            kept.rename(self.text)
        return (
            RestoreResult(1, 0, f"newer-{name}") if self.text.with_name(f"newer-{name}").exists() else RestoreResult()
        )

    def prune(self, home: AgentHome, *, older_than_s: float) -> int:
        del home, older_than_s
        return 0


@dataclass
class Gate:
    """Whether the port is closed."""

    closed: bool = False

    def close(self, port: int) -> None:
        assert port
        self.closed = True

    def open(self) -> None:
        self.closed = False


@dataclass
class ReleaseHome:
    """See the module."""

    home: NodeHome
    system: GatewaySystem
    slots: FolderSlots
    state: TextState
    gate: Gate

    @property
    def layout(self) -> Layout:
        return self.home.layout

    @property
    def node(self) -> Machine:
        return self.mortal(Death())

    def mortal(self, death: Death) -> Machine:
        """The machine for a hermes-node that dies."""
        changing = {
            "write",
            "write_if_changed",
            "remove",
            "start",
            "point",
            "rename",
            "keep",
            "keep_config",
            "take_config_back",
            "migrate",
            "restore",
            "close",
            "open",
        }
        ways = (real_files, self.system, self.state, self.slots, self.gate)
        files, system, state, slots, gate = (
            Mortal(way, death, changing | {"systemctl"} if way is self.system else changing) for way in ways
        )
        return Machine(self.layout, files, system, state, slots=slots, gate=gate)

    def boot(self) -> None:
        """The machine was off for a moment: what is on a tmpfs is gone, and systemd starts the gateway."""
        shutil.rmtree(self.layout.root / "run")
        (self.layout.root / "run").mkdir()
        self.gate.closed = self.system.running = False
        self.system.systemctl("start", UNIT)

    def offer(
        self,
        lock: Lock,
        *,
        statement: Signed | None = None,
        signers: tuple[Signed, ...] | None = None,
        revocations: Signed | None = None,
    ) -> Path:
        """Hand a release in, or in its place what somebody said of one."""
        text = lock.to_json().decode()
        chain = (signers_by("ada", 1, "ada"),) if signers is None else signers
        handout = Handout(statement or signed_by("ada", text), chain, revocations)
        path = self.layout.root / "run/handout.json"
        path.touch(0o600)
        path.write_bytes(handout.to_json())
        return path

    def upload(self, lock: Lock) -> None:
        """Put every file of a release where it is uploaded to."""
        incoming = self.layout.blobs / "incoming"
        incoming.mkdir(parents=True, exist_ok=True)
        for blob in lock.blobs("3.11"):
            (incoming / blob.sha256).write_bytes(content(blob.name))

    def seen(self) -> dict[str, Any]:
        """What differs with the release that runs."""
        return {
            "current": self.layout.current.readlink().name,
            "config": json.loads((self.layout.managed / "config.yaml").read_text()).get("gateway"),
            "unit": self.layout.unit(UNIT).read_text(),
            "runs": self.system.runs if self.system.running else None,
            "closed": self.gate.closed,
            "activation": self.layout.activation.exists(),
            "held": self.layout.restoring.exists(),
            "drains": (self.home.home / ".drain_request.json").exists(),
            "said": self.state.text.read_text(),
        }


def signed_by(who: str, text: str, kind: Kind = Kind.LOCK) -> Signed:
    """A text of a kind with somebody's signature, as ``FolderSlots`` believes it."""
    return Signed(text, f"{who}:{kind}:{len(text.encode())}")


def signers_by(who: str, number: int, *names: str) -> Signed:
    """A file of allowed signers, signed by somebody."""
    return signed_by(who, AllowedSigners(number, lines_of(*names)).to_json().decode(), Kind.SIGNERS)


def content(name: str) -> bytes:
    """What a file of a release holds."""
    return f"content of {name}".encode()


def lock_of(version: str, *, protocol: int = 1) -> Lock:
    """A release of files that are only names."""

    def blob(name: str) -> Blob:
        return Blob(name, hashlib.sha256(content(name)).hexdigest(), len(content(name)))

    wheel = blob(f"hermes_agent-{version}-py3-none-any.whl")
    return Lock(
        agent_version=version,
        origin="index",
        config_schema=33,
        pythons={"3.11": Wheels(blob("requirements.txt"), (wheel,))},
        uv=blob("uv"),
        skills=blob("skills.tar.gz"),
        site=(),
        unit=blob(UNIT),
        managed=Managed({"gateway": {"of": version}}, {}),
        node=Node(protocol, blob("hermes-node")),
    )


OLD_LOCK = lock_of("0.19.0")
OLD = OLD_LOCK.id


def make(root: Path) -> ReleaseHome:
    """A machine whose gateway runs the release of its image."""
    home = node_home.make(root, runs_processes=False)
    system = GatewaySystem(layout=home.layout)
    home.system = system
    slots = FolderSlots(home.layout, system)
    home.layout.releases.mkdir(parents=True)
    slots.install(OLD_LOCK, record_of_lock(OLD_LOCK, slots.python()))
    slots.point("current", OLD)
    home.layout.unit(UNIT).parent.mkdir(parents=True)
    shutil.copyfile(home.layout.releases / OLD / UNIT, home.layout.unit(UNIT))
    text = root / "var/said"
    text.write_text("old")
    return ReleaseHome(home, system, slots, TextState(text, system), Gate())
