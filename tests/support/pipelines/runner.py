"""Runs a job's own steps as GitHub's runner does: one bash a step, files that carry variables on, exit codes."""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.pipelines.workflows import ROOT, Workflow
from tests.support.real.commands import fork_server
from tests.support.real.commands.command import Command

_BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
_LONGEST_S = 600.0


@dataclass(frozen=True)
class StepRun:
    """A step that was run.

    Attributes:
        said: What it printed, on both streams.
    """

    name: str
    exit_code: int
    said: str


@dataclass
class JobRun:
    """A job with the files that its steps leave.

    Attributes:
        folder: Where steps run; has the project's Makefile.
        summary: What the job shows.
    """

    folder: Path
    steps: list[StepRun] = field(default_factory=list)
    summary: str = ""
    output: str = ""

    def step(self, name: str) -> StepRun:
        return next(step for step in self.steps if step.name == name)

    @property
    def failed(self) -> list[StepRun]:
        return [step for step in self.steps if step.exit_code]


async def run_job(
    workflow: Workflow,
    job: str,
    command: Command,
    folder: Path,
    *,
    variables: Mapping[str, str],
    without: tuple[str, ...] = (),
) -> JobRun:
    """Run the steps of a job that have a script, with what stands for GitHub's variables and secrets.

    Args:
        command: Whose environment and home the commands act on.
        folder: Empty; where the steps run.
        variables: As GitHub would have filled them in.
        without: Names of steps that need what is not here.
    """
    job_run = JobRun(folder)
    (folder / "Makefile").symlink_to(ROOT / "Makefile")
    files = {
        name: folder / name.lower() for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")
    }
    for file in files.values():
        file.touch()
    given = {
        **command.environ,
        **{name: str(file) for name, file in files.items()},
        "RUNNER_TEMP": str(folder),
        "GITHUB_RUN_ID": "4711",
        **variables,
    }
    for step in workflow.steps(job):
        is_due = not job_run.failed or "!cancelled()" in str(step.get("if", ""))
        if "run" not in step or step["name"] in without or not is_due:
            continue
        job_run.steps.append(await _run(step, given, folder))
        for line in files["GITHUB_ENV"].read_text().splitlines():
            name, _, value = line.partition("=")
            given[name] = value
        added = map(_forked, files["GITHUB_PATH"].read_text().split())
        given["PATH"] = ":".join([*added, command.environ["PATH"]])
    job_run.summary = files["GITHUB_STEP_SUMMARY"].read_text()
    job_run.output = files["GITHUB_OUTPUT"].read_text()
    return job_run


def _forked(place: str) -> str:
    """The folder where forks stand in for what a step installed; any other as it is."""
    return str(fork_server.folder()) if Path(place) == Path(sys.executable).parent else place


async def _run(step: Mapping[str, Any], given: Mapping[str, str], folder: Path) -> StepRun:
    is_ours = "make pipeline-setup" in step["run"]
    process = await asyncio.create_subprocess_exec(
        *_BASH,
        step["run"],
        env=dict(given),
        cwd=ROOT if is_ours else folder,  # a runner checks the project out; here its steps leave files
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_LONGEST_S):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
    return StepRun(step["name"], process.returncode or 0, output.decode(errors="replace"))
