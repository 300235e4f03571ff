"""An operator with a store of releases and real keys, and a machine in a folder that takes them in."""

import sys
from pathlib import Path
from typing import Any

from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.fetch import fetch
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.wire.documents.handout import Handout
from hermesops.wire.documents.lock import Lock
from hermesops.wire.layout import Layout
from tests.support.fakes.machines.node_system import FakeSystem
from tests.support.releases.package_index import AT, Index, builder_of, order
from tests.support.releases.signer import Operator

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class World:
    """An operator with a store, and a machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.where = folder, str(folder / "releases")
        self.ada = Operator(folder, "ada")
        self.ada.releases(self.where).replace_signers(self.ada.line, sign_again=False)
        self.lock = self.build("0.19.0")
        self.machine = self.another_machine("machine")

    def build(self, agent: str) -> Lock:
        builder = builder_of(self.ada.releases(self.where), Index(), self.folder)
        return builder.build(order(agent, pythons=(PYTHON,)), who="ada", note="", at=AT).lock

    def another_machine(self, name: str) -> Machine:
        layout = Layout(self.folder / name)
        for folder in ("etc/hermes-node", "run/hermes-node", "opt/hermes/node"):
            (layout.root / folder).mkdir(parents=True)
        return Machine(layout, system=FakeSystem(), slots=DiskSlots(layout))

    def handout(self, lock: Lock | None = None) -> Handout:
        return self.ada.releases(self.where).handout((lock or self.lock).id, PYTHON)

    def upload(self, lock: Lock, *, damaged: str = "") -> None:
        incoming = self.machine.layout.blobs / "incoming"
        for blob in lock.blobs(PYTHON):
            content = self.ada.releases(self.where).blob(blob)
            (incoming / blob.sha256).write_bytes(content[:-1] if blob.name == damaged else content)

    def fetch(self, handout: Handout, machine: Machine | None = None) -> tuple[dict[str, Any], int]:
        on = machine or self.machine
        path = on.layout.root / "run/hermes-node/handout.json"
        path.touch(0o600)
        path.write_bytes(handout.to_json())
        return fetch(on, path, lease=None)
