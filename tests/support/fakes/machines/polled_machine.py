"""A machine in a folder that asks a platform in memory for orders, with an sshd that only says what it was told."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

from hermesops.model.access.certificate import MachineNames
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.orders import poll
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.programs.node.system.https import PlatformAnswer
from hermesops.wire.documents.handout import Signed
from hermesops.wire.documents.orders import BreakGlassOrder, Report
from hermesops.wire.documents.signers import Kind
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import Credential
from tests.support.fakes.credentials import authority_in, credential_of
from tests.support.fakes.machines.node_system import FakeSystem
from tests.support.releases.signer import Operator

BORN = 1_800_000_000
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPc0Mm5zcnJOQ0JXbXhLc0p4Wk5GQkpTRGxYd3BqTG1t"
NAMES = MachineNames("local", MachineId("m-1"), CellName("cell1"), InstanceId("i-1"))


@dataclass
class Systemd(FakeSystem):
    """Records what systemd is told.

    Attributes:
        starts: Whether units start.
        active: Those that run.
    """

    starts: bool = True
    active: set[str] = field(default_factory=set)
    told: list[str] = field(default_factory=list)

    def control(self, *words: str) -> str:
        if words[0] == "is-active":
            return "active\n" if words[1] in self.active else "inactive\n"
        self.told.append(" ".join(words))
        if words[0] == "start" and self.starts:
            self.active.add(words[1])
        if words[0] == "stop":
            self.active.discard(words[1])
        return super().control(*words)


@dataclass
class FakeSsh:
    """Implements ``Ssh``: the firewall lets networks in for a while."""

    now: Callable[[], float]
    made: int = 0
    until: dict[str, float] = field(default_factory=dict)

    def make_key(self) -> tuple[bytes, bytes]:
        self.made += 1
        return b"private\n", f"{HOST_KEY}\n".encode()

    def own_address(self, host: str) -> str:
        return {"192.0.2.7": "192.0.2.1", "10.0.0.1": "10.0.0.7"}.get(host, "198.51.100.1")

    def let_in(self, network: str, seconds: int) -> None:
        self.until.setdefault(network, self.now() + seconds)

    def shut_out(self) -> None:
        self.until.clear()

    @property
    def admitted(self) -> list[str]:
        """Who is let in now."""
        return [network for network, until in self.until.items() if until > self.now()]


@dataclass
class Platform:
    """Answers every question alike.

    Attributes:
        answer: As JSON, or the bytes themselves.
        date: The header ``Date``; ``None`` for the machine's own time.
    """

    answer: Any = field(default_factory=lambda: {"ingest": "", "break_glass": None})
    date: str = formatdate(BORN, usegmt=True)
    asked: list[tuple[str, str, bytes]] = field(default_factory=list)

    def __call__(self, _credential: Credential, _key: bytes, method: str, path: str, body: bytes) -> PlatformAnswer:
        self.asked.append((method, path, body))
        answer = self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()
        return PlatformAnswer(answer, self.date)

    @property
    def reports(self) -> list[Report]:
        """What the machine said of itself, question by question."""
        return [Report.from_json(body) for _, _, body in self.asked]


@dataclass
class PolledMachine:
    """The machine, and all around it.

    Attributes:
        signer: Somebody whom it allows to order everything.
    """

    machine: Machine
    platform: Platform
    systemd: Systemd
    ssh: FakeSsh
    signer: Operator

    @property
    def layout(self) -> Layout:
        return self.machine.layout

    def ask(self, **changes: object) -> dict[str, Any]:
        """Ask for orders; the platform answers with these changes from now on."""
        if changes:
            self.platform.answer = {"ingest": "", "break_glass": None, **changes}
        return poll.ask(self.machine)

    def order(self, **changes: Any) -> BreakGlassOrder:  # noqa: ANN401 - of any field
        """An order for this machine, valid for half an hour from now on."""
        now = int(self.machine.system.now())
        fields = {
            "id": "0" * 32,
            "environment": "local",
            "instance": "i-1",
            "machine": "m-1",
            "key": self.signer.signers.public(),
            "source": "192.0.2.7/32",
            "not_before": now,
            "expires": now + 1800,
        }
        return BreakGlassOrder(**{**fields, **changes})

    def signed(self, order: BreakGlassOrder, *, by: Operator | None = None, kind: Kind = Kind.BREAK_GLASS) -> Signed:
        """An order as an operator signs it."""
        return (by or self.signer).signed(order.to_json().decode(), kind)

    def hand(self, signed: Signed | None) -> dict[str, Any] | None:
        """Ask, and be handed that order; what the machine says became of it."""
        became: dict[str, Any] | None = self.ask(break_glass=vars(signed) if signed else None)["break_glass"]
        return became


def polled_machine(folder: Path, names: MachineNames = NAMES) -> PolledMachine:
    """A machine that has a certificate of these names and knows its signers."""
    layout, platform, systemd = Layout(folder / "machine"), Platform(), Systemd()
    for name in ("etc/hermes-node", "etc/hermes-monitoring", "run/hermes-node", "run/systemd/system"):
        (layout.root / name).mkdir(parents=True)
    ssh, signer = FakeSsh(systemd.now), Operator(folder, "ada")
    machine = Machine(layout, system=systemd, ask_orders=platform, ssh=ssh, slots=DiskSlots(layout))
    layout.signers.write_text(signer.first_signers().text)
    layout.machine_key.write_bytes(key := machine.keys.make())
    request, born = machine.keys.request(key).decode(), datetime.fromtimestamp(BORN, UTC)
    credential = credential_of(authority_in(folder), request, names, now=born)
    layout.machine_certificate.write_bytes(credential.to_pem())
    layout.authority.write_text(credential.authority)
    return PolledMachine(machine, platform, systemd, ssh, signer)
