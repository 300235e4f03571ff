"""Starts the pulumi CLI as the SDK's Automation API does, but with an environment of its own.

The SDK's own command passes on all variables of this process, and the CLI passes them on to every plugin.
Source: pulumi 3.272.0, ``PulumiCommand`` in ``pulumi/automation/_cmd.py``.
"""

import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation.errors import create_command_error
from semver import VersionInfo

from hermesops.errors import UnavailableError

_OLDEST = VersionInfo(3, 1, 0)
"""The oldest version that the SDK accepts. Source: ``pulumi/automation/_minimum_version.py``."""

_VERSION_S = 60.0

OnOutput = Callable[[str], object]


class CleanCommand(PulumiCommand):
    """The CLI at one place.

    ``environment`` is its whole environment, beside the SDK's variables for a command.

    Raises:
        UnavailableError: It is too old for the SDK, or no pulumi CLI.
    """

    def __init__(self, program: Path, environment: Mapping[str, str]) -> None:
        # Not the base class's method, which gets the version with this process's environment.
        self.command = str(program)
        self._environment = {**environment, "PULUMI_SKIP_UPDATE_CHECK": "true"}
        self.version = _version(program, self._environment)

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: OnOutput | None = None,
        on_error: OnOutput | None = None,
    ) -> CommandResult:
        """Run one command to its end; see the base class.

        Raises:
            CommandError: It failed.
        """
        before = args[: args.index("--")] if "--" in args else args
        interactive = [] if "--non-interactive" in before else ["--non-interactive"]
        with (
            subprocess.Popen(
                [self.command, *interactive, *args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=self._variables(additional_env),
                encoding="utf-8",
                errors="replace",
            ) as process,
            ThreadPoolExecutor(2) as readers,
        ):
            out = readers.submit(_lines, process.stdout, on_output)
            err = readers.submit(_lines, process.stderr, on_error)
        result = CommandResult(stdout=out.result(), stderr=err.result(), code=process.returncode)
        if result.code:
            raise create_command_error(result)
        return result

    def _variables(self, additional: Mapping[str, str]) -> dict[str, str]:
        variables = {**self._environment, **additional, "PULUMI_AUTOMATION_API": "true"}
        folder = str(Path(self.command).parent)  # plugins that lie beside the CLI go first
        return {**variables, "PATH": f"{folder}:{variables.get('PATH', '')}"}


def _version(program: Path, environment: Mapping[str, str]) -> VersionInfo:
    try:
        done = subprocess.run(
            [program, "version"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_S,
            check=True,
        )
        version = VersionInfo.parse(done.stdout.strip().removeprefix("v"))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UnavailableError(f"the pulumi CLI cannot be used: {error}", hint=f"{program} version") from error
    if version < _OLDEST:
        raise UnavailableError(
            f"the pulumi CLI cannot be used: {program} is of version {version}, older than {_OLDEST}",
            hint="https://www.pulumi.com/docs/install/",
        )
    return version


def _lines(stream: IO[str] | None, report: OnOutput | None) -> str:
    lines: list[str] = []
    for line in stream or ():
        lines.append(line.rstrip())
        if report is not None:
            report(lines[-1])
    return "\n".join(lines)
