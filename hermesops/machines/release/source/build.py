"""From a tag's archive to the agent's wheel and its libraries' pins; nothing is kept before all of it is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from hermesops.errors import Hint, RefusedError
from hermesops.machines.image.packages.download import Pip
from hermesops.machines.release.interpreter import OwnPython
from hermesops.machines.release.requirements import Pin
from hermesops.machines.release.source.archive import SourceFile, SourceTree
from hermesops.machines.release.source.isolation import Isolation
from hermesops.machines.release.source.project import fits, read_project
from hermesops.machines.release.source.resources import lacking
from hermesops.machines.release.source.upstream_lock import LOCK, pins_of
from hermesops.machines.release.source.wheel import AgentWheel, build_wheel, fetched_tools, tool_pins

_TOOLS = Path(__file__).with_name("build-tools.txt")


@dataclass(frozen=True)
class BuiltSource:
    """What a release takes of a source tree.

    Attributes:
        wheel: The agent's wheel.
        pins: One wheel of each library, by Python.
        resources: The files that the wheel lacks.
    """

    tree: SourceTree
    wheel: AgentWheel
    pins: Mapping[str, Sequence[Pin]]
    resources: Mapping[str, SourceFile]


@dataclass(frozen=True)
class SourceBuilder:
    """Builds the agent from source trees.

    Attributes:
        uv: The program that reads upstream's lock file; called only where one is read.
        extras: Extras of the agent's package, in brackets.
    """

    isolation: Isolation
    downloads: Pip
    uv: Callable[[], Path]
    extras: str
    report: Callable[[str], None]

    def build(
        self, tree: SourceTree, interpreter: OwnPython | None, pythons: Sequence[str], scratch: Path
    ) -> BuiltSource:
        """Build a tree's wheel, and find its libraries for each Python.

        Raises:
            RefusedError: The tree is not the agent's, its lock names a library without hash or fitting wheel, or the
                build fails.
            UnavailableError: The package index does not answer.
        """
        project, lock = read_project(tree), tree.text(LOCK)
        if self.isolation.weakness:
            self.report(f"building from source: {self.isolation.weakness}")
        if tree.links:
            self.report(f"links in {tree.name} are left out: {', '.join(tree.links[:5])}")
        exported = self._exported(tree)
        pins = {python: pins_of(lock, exported, python) for python in pythons}
        tools = tool_pins(project, lock, _TOOLS.read_text(encoding="utf-8"))
        self.report(f"building the wheel of {tree.name}")
        packages = fetched_tools(tools, min(pythons), self.downloads, scratch)
        wheel = build_wheel(tree, packages, interpreter, self.isolation)
        return BuiltSource(tree, wheel, pins, lacking(tree, wheel.content))

    def _exported(self, tree: SourceTree) -> str:
        """The libraries of upstream's lock, as uv prints them. Apart from this computer, since uv reads the project."""
        files = {f"source/{name}": tree.files[name] for name in ("pyproject.toml", LOCK)}
        files["tools/uv"] = SourceFile(self.uv().read_bytes(), executable=True)
        words = [
            "{place}/tools/uv",
            "export",
            "--frozen",
            "--offline",
            "--quiet",
            "--no-cache",
            "--no-python-downloads",
        ]
        words += ["--format=requirements.txt", "--no-header", "--no-annotate", "--no-emit-project"]
        words += ["--no-default-groups"]
        for extra in self.extras.strip("[]").split(","):
            words += ["--extra", extra] if extra else []
        output = self.isolation.run(f"reading {LOCK} of {tree.name}", words, files, {})
        return output.decode(errors="replace")


def chosen_pythons(title: str, wanted: str, pythons: Sequence[str], interpreter: OwnPython | None) -> tuple[str, ...]:
    """The Pythons that a release is made for: its own, or those of machines.

    Args:
        title: The agent, for messages.
        wanted: The versions of Python that it is for.
        pythons: Those of machines.
        interpreter: The Python that the release brings.

    Raises:
        RefusedError: The agent is not for one of them.
    """
    chosen = (interpreter.python,) if interpreter else tuple(sorted(set(pythons)))
    unfit = [python for python in chosen if not fits(SpecifierSet(wanted), python)]
    if not unfit:
        return chosen
    if interpreter:
        raise RefusedError(f"{title} is for Python {wanted}, and {interpreter.name} is Python {interpreter.version}")
    raise RefusedError(
        f"{title} is for Python {wanted}, and machines have {', '.join(unfit)}",
        hint=Hint(("release", "build", "--interpreter", "SOURCE#sha256=…"), "brings a Python with the release"),
    )
