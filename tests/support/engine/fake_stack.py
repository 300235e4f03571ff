"""A stack over the fake plugin: its folder, its world, its faults, and programs of machines."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.infra.engine.embedded.engine import EmbeddedEngine
from hermesops.infra.engine.options import EngineConfig, Program
from hermesops.model.stack import StackRef

PLUGIN = Path(__file__).with_name("fake_plugin.py")
ROOT = Path(__file__).parents[3]
STACK = StackRef("rec", "dev")
LAUNCHER = """#!{python}
import importlib.util, os, runpy, sys, types
sys.path.insert(0, {root!r})
sys.argv[0] = {plugin!r}
os.chdir({folder!r})
folders = importlib.util.find_spec("pulumi").submodule_search_locations
for name in ("pulumi", "pulumi.runtime"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = folders
    folders = [os.path.join(folder, "runtime") for folder in folders]
runpy.run_path({plugin!r}, run_name="__main__")
"""
"""The program: of pulumi it loads the protocol alone, not the package around it, which takes half a second."""


@dataclass
class FakeStack:
    """Everything below one folder; a killed process leaves it for the next."""

    folder: Path

    def install(self) -> "FakeStack":
        """Make the plugin's executable; its world lies beside it."""
        plugin = self.plugins / "pulumi-resource-justavps"
        self.plugins.mkdir(parents=True)
        text = LAUNCHER.format(python=sys.executable, root=str(ROOT), plugin=str(PLUGIN), folder=str(self.plugins))
        plugin.write_text(text)
        plugin.chmod(0o755)
        return self

    @property
    def plugins(self) -> Path:
        return self.folder / "plugins"

    @property
    def backend(self) -> Path:
        return self.folder / "backend"

    @property
    def state_file(self) -> Path:
        return self.backend / ".pulumi" / "stacks" / "rec" / "dev.json"

    def engine(
        self, *, passphrase: Callable[[], str] = lambda: "a passphrase", parallel: int = 4, where: str = ""
    ) -> EmbeddedEngine:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}
        return EmbeddedEngine(
            EngineConfig(
                where or self.backend,
                passphrase=passphrase,
                environment=environment,
                plugin_folders=[self.plugins],
                parallel=parallel,
            )
        )

    def machines(self) -> list[str]:
        """Names of what exists in the plugin's world."""
        return sorted(thing["name"] for thing in self.world().values())

    def calls(self, rpc: str, name: str | None = None) -> list[dict[str, Any]]:
        file = self.plugins / "calls.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        requests = [line["request"] for line in lines if line["rpc"] == rpc]
        return [request for request in requests if name in {None, request["name"]} and not request.get("preview")]

    def world(self) -> dict[str, Any]:
        """What exists, by id."""
        file = self.plugins / "world.json"
        objects: dict[str, Any] = json.loads(file.read_text())["objects"] if file.exists() else {}
        return objects

    def change_world(self, objects: Mapping[str, Any]) -> None:
        """Put other things there, behind the engine's back."""
        file = self.plugins / "world.json"
        counters = json.loads(file.read_text())["counters"] if file.exists() else {}
        file.write_text(json.dumps({"counters": counters, "objects": objects}))

    def resource(self, name: str) -> dict[str, Any] | None:
        """What the state has under a logical name."""
        named = (r for r in self.state().get("resources", []) if r["urn"].endswith(f"::{name}"))
        return next(named, None)

    def faults(self, *faults: Mapping[str, Any]) -> None:
        (self.plugins / "faults.json").write_text(json.dumps(faults))

    def state(self) -> dict[str, Any]:
        latest: dict[str, Any] = json.loads(self.state_file.read_text())["checkpoint"]["latest"]
        return latest


def urn_of(name: str) -> str:
    """The URN of a machine of such a program."""
    return f"urn:pulumi:dev::rec::justavps:index:Machine::{name}"


def machines(names: Sequence[str], **properties: Any) -> Program:  # noqa: ANN401  whatever a program may pass
    """A program of independent machines that exports the first one's address."""
    return _machines(names, properties, in_order=False)


def machines_in_order(*names: str) -> Program:
    """As ``machines``, each made when the one before it is there."""
    return _machines(names, {}, in_order=True)


def _machines(names: Sequence[str], properties: Mapping[str, Any], *, in_order: bool) -> Program:

    def program() -> None:
        import pulumi  # noqa: PLC0415  as a program of ours would

        inputs = {key: value for key, value in properties.items() if key != "import_id"}

        class Machine(pulumi.CustomResource):
            def __init__(self, name: str, before: list[pulumi.Resource]) -> None:
                outputs = dict.fromkeys(("ip", "status", "rootPassword"))
                options = pulumi.ResourceOptions(depends_on=before, import_=properties.get("import_id"))
                super().__init__("justavps:index:Machine", name, {**outputs, **inputs}, options)

        machines: list[Machine] = []
        for name in names:
            machines.append(Machine(name, list(machines[-1:]) if in_order else []))
        if machines:
            pulumi.export("ip", machines[0].ip)  # type: ignore[attr-defined]

    return program
