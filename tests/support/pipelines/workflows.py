"""The workflows of .github/workflows, and the commands that their steps run."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".github" / "workflows"

WORD = "word"
"""Stands for what a variable of the shell holds."""

_VARIABLE = re.compile(r"\$\{?[A-Z_]+\}?")
_TEXT = frozenset({"echo", "{", "}"})
"""What a line may begin with besides the two programs: text for a summary, and what gathers it."""


@dataclass(frozen=True)
class Workflow:
    """One file.

    Attributes:
        events: What starts it, by name.
    """

    file: Path
    content: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.file.stem

    @property
    def events(self) -> Mapping[str, Any]:
        triggers = self.content["on"]
        return triggers if isinstance(triggers, Mapping) else {str(triggers): None}

    @property
    def jobs(self) -> Mapping[str, Mapping[str, Any]]:
        jobs: Mapping[str, Mapping[str, Any]] = self.content["jobs"]
        return jobs

    def steps(self, job: str = "") -> Iterator[Mapping[str, Any]]:
        """All steps, or those of one job."""
        for name, content in self.jobs.items():
            if job in {"", name}:
                yield from content["steps"]


def workflows() -> list[Workflow]:
    return [Workflow(file, yaml.safe_load(file.read_text())) for file in sorted(FOLDER.glob("*.yml"))]


def workflow(name: str) -> Workflow:
    return next(workflow for workflow in workflows() if workflow.name == name)


def programs(script: str) -> Iterator[list[str]]:
    """The words of each program that a line or a part of a pipe runs, with ``word`` for each variable.

    Raises:
        ValueError: A line begins with something else than ``hermesops``, ``make`` or text for a summary.
    """
    for line in script.replace(" | ", "\n").splitlines():
        words = shlex.split(_VARIABLE.sub(WORD, line).split(">>")[0])
        if not words or words[0] in _TEXT:
            continue
        if words[0] not in {"hermesops", "make"}:
            raise ValueError(f"neither hermesops nor make: {line}")
        yield words
