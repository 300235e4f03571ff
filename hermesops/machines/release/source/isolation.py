"""Runs a stranger's program with nothing of the operator's: no network, files, environment, processes or rights.

bubblewrap makes the walls, for root and for anybody, without systemd. The program gets its files as an archive on
standard input, unpacked into memory, and its result is whatever it writes to standard output: it never sees a disk.

Source: bwrap(1) 0.8, prlimit(1), setpriv(1).
"""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

from hermesops.errors import RefusedError
from hermesops.machines.release.source import inside, memory_scope
from hermesops.machines.release.source.archive import SourceFile
from hermesops.machines.release.source.limits import Ending, Limits, refusal
from hermesops.machines.release.source.memory_scope import MemoryScope

_MIB = 1 << 20
_NOBODY = "65534"
_PLACE = "/build"
_SHARED_BYTES = 64 * _MIB
"""Files in ``/dev/shm``: semaphores of Python's multiprocessing, and little else."""

_ORPHANED_S = 30.0
PYTHON = "/usr/bin/python3"
"""Unpacks the files, and builds where a release brings no Python; not ours, which may be in an operator's home."""


_LIMITS = Limits()


@dataclass(frozen=True)
class Isolation:
    """Runs programs apart from everything on this computer.

    Attributes:
        bwrap: The program bubblewrap.
    """

    limits: Limits = _LIMITS
    bwrap: str = "bwrap"

    @cached_property
    def scope(self) -> MemoryScope | None:
        """Bounds the memory of programs; ``None`` where this computer's systemd does not."""
        return None if self._wanted_scope.obstacle else self._wanted_scope

    @property
    def weakness(self) -> str:
        """How programs are bounded less than they should be, and why; empty where they are not."""
        why = self._wanted_scope.obstacle
        return f"memory is bounded for each process and not for all together: {why}" if why else ""

    @cached_property
    def _wanted_scope(self) -> MemoryScope:
        return MemoryScope(min(self.limits.memory_bytes, memory_scope.most_bytes()))

    def run(
        self, title: str, words: Sequence[str], files: Mapping[str, SourceFile], environment: Mapping[str, str]
    ) -> bytes:
        """The standard output of a program; its working folder is ``source`` among its files.

        ``words`` name programs among the files as ``{place}/…``; ``title`` names the run in messages.

        Raises:
            RefusedError: bubblewrap is missing or not allowed here, or the program failed, or ran too long.
        """
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as result,
            tempfile.TemporaryFile() as messages,
        ):
            pack(files, given)
            ending = self._ending(words, environment, given, result, messages)
            result.seek(0)
            output = result.read(self.limits.output_bytes)
            if ending.is_good:
                return output
            messages.seek(max(0, messages.seek(0, os.SEEK_END) - 64 * 1024))
            raise refusal(title, ending, messages.read().decode(errors="replace"), self.limits)

    def command(
        self, words: Sequence[str], environment: Mapping[str, str], scope: MemoryScope | None, report: Path
    ) -> list[str]:
        """The whole command of a program, which reads its packed files from standard input.

        ``scope`` bounds its memory and reports kills to ``report``; without one, its address space is bounded.
        """
        program = [word.replace("{place}", _PLACE) for word in words]
        walls = self._walls(environment, has_scope=scope is not None)
        command = [*walls, PYTHON, "-I", "-S", "-c", _driver(), _PLACE, *program]
        return scope.command(command, report) if scope else command

    def _ending(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        given: IO[bytes],
        result: IO[bytes],
        messages: IO[bytes],
    ) -> Ending:
        with tempfile.NamedTemporaryFile(prefix="hermesops-kills-") as report:
            try:
                done = subprocess.run(
                    self.command(words, environment, self.scope, Path(report.name)),
                    stdin=given,
                    stdout=result,
                    stderr=messages,
                    env=memory_scope.environment(),
                    timeout=self.limits.seconds,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return Ending(None)
            return self._counted(done.returncode, report.read())

    def _counted(self, code: int, report: bytes) -> Ending:
        if self.scope is None:
            return Ending(code)
        kills, limit_bytes = memory_scope.kills_in(report), self.scope.limit_bytes
        return Ending(code, kills, is_started=bool(report.strip()), counted_bytes=limit_bytes)

    def _walls(self, environment: Mapping[str, str], *, has_scope: bool) -> list[str]:
        bwrap = shutil.which(self.bwrap)
        if bwrap is None:
            raise RefusedError(
                "building from source needs bubblewrap, which keeps the build apart from this computer",
                hint="apt-get install bubblewrap",
            )
        limits = self.limits
        words = []
        if os.geteuid() == 0:
            words += ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
        words += [bwrap, "--unshare-all", "--clearenv", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        words += [word for path in _system() for word in path]
        words += ["--dev", "/dev", "--size", str(_SHARED_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108 - its own
        words += ["--size", str(limits.files_bytes), "--tmpfs", _PLACE, "--chdir", _PLACE]
        words += ["--remount-ro", "/dev", "--remount-ro", "/"]  # both are memory, half of this computer's
        variables = {"PATH": "/usr/bin:/bin", "HOME": _PLACE, "TMPDIR": _PLACE, "LC_ALL": "C.UTF-8", **environment}
        words += [word for name, value in variables.items() for word in ("--setenv", name, value)]
        words += ["prlimit", *([] if has_scope else [f"--as={limits.memory_bytes}"])]
        words += [f"--fsize={limits.output_bytes}", "--core=0"]
        words += [f"--nproc={limits.processes}", f"--cpu={int(limits.seconds)}", "--"]
        # Where hermesops is killed before bubblewrap has asked to be told, nobody else ends a program that waits.
        return [*words, "timeout", "--signal=KILL", f"{limits.seconds + _ORPHANED_S:g}"]


def _system() -> list[tuple[str, ...]]:
    """The folders of this computer that a program sees, read-only: its system's programs."""
    paths: list[tuple[str, ...]] = [("--ro-bind", "/usr", "/usr")]
    for name in ("/bin", "/sbin", "/lib", "/lib64"):
        path = Path(name)
        if path.is_symlink():
            paths.append(("--symlink", str(path.readlink()), name))
        elif path.exists():
            paths.append(("--ro-bind", name, name))
    return paths


def _driver() -> str:
    return Path(inside.__file__).read_text(encoding="utf-8")


def pack(files: Mapping[str, SourceFile], target: IO[bytes]) -> None:
    """Write files as the archive that a program gets on its standard input."""
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(files):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(files[path].content), 0o755 if files[path].executable else 0o644
            archive.addfile(member, io.BytesIO(files[path].content))
    target.seek(0)
