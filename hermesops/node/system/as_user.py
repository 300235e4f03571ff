"""An errand: this program run again as the agent's user, for whatever reads or writes the agent's own files.

The user gets no more than the agent has itself, so a link, a database or a name that the agent has planted leads
nowhere that the agent could not go. What an errand says is believed no further than that: it is numbers and digests.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from hermesops.node.errors import BadRequestError, NodeError, NotReadyError, RefusedError
from hermesops.node.release.trial import state_copy
from hermesops.node.state import export, snapshots, swap
from hermesops.node.state.archive import tar_stream
from hermesops.node.state.archive.unpack import unpack
from hermesops.node.system.files import Access
from hermesops.node.untrusted.foreign_text import one_line
from hermesops.node.untrusted.strict_json import MalformedJSONError, parse_object

WORD = "errand"
"""First argument of the program that makes it an errand; not for people."""

_REPORT_BYTES = 1 << 20
_END_S = 60.0

WATCH_EVERY_S = 0.5
"""How often whoever waits for an errand sees whether it can still come to an end."""

_STOPPED = frozenset({os.CLD_STOPPED, os.CLD_TRAPPED})
_MEMORY_BYTES = 1 << 30
"""What an errand may ask the kernel for: a database of the agent's can be made to need any amount."""


@dataclass(frozen=True)
class AgentHome:
    """An agent's home, and whose it is.

    Attributes:
        path: HERMES_HOME.
        access: The agent's user.
        program: Where hermes-node is.
    """

    path: Path
    access: Access
    program: Path


class UserProcess:
    """One that runs, in a process group of its own.

    Args:
        home: Of which agent.
        verb: A key of ``_VERBS``.
        words: What belongs to the verb.
        stdin: What it reads.
        stdout: What it writes.
    """

    def __init__(
        self,
        home: AgentHome,
        verb: str,
        *words: str,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
    ) -> None:
        self._verb = verb
        self._report, told = os.pipe()
        try:
            self.process = subprocess.Popen(
                [
                    *("prlimit", f"--as={_MEMORY_BYTES}", "--core=0", "--"),
                    *as_user(home.access),
                    *(sys.executable, "-I", str(home.program), WORD, verb, str(home.path), str(told), *words),
                ],
                stdin=stdin,
                stdout=subprocess.DEVNULL if stdout is None else stdout,
                stderr=subprocess.DEVNULL,
                pass_fds=[told],
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._report)
            raise NotReadyError(f"prlimit: {error.strerror}") from error
        finally:
            os.close(told)

    def end(self, *, timeout_s: float = _END_S) -> dict[str, Any]:
        """Wait for its end; what it came to. Nothing of it runs afterwards.

        Args:
            timeout_s: Seconds for all of it, whatever it says meanwhile.

        Raises:
            NodeError: It failed, was stopped by a signal, said too much, or did not end in time.
        """
        until = time.monotonic() + timeout_s
        data = b""
        try:
            while piece := self._said(until, timeout_s):
                data += piece
                if len(data) > _REPORT_BYTES:
                    raise NotReadyError(f"{self._verb}: said more than {_REPORT_BYTES} bytes")
        finally:
            self.stop()
        return told_in(self._verb, data)

    def _said(self, until: float, timeout_s: float) -> bytes:
        """The next piece of its report; empty at the end of the report, or of the process."""
        while (left := until - time.monotonic()) > 0:
            is_over = self.is_over()
            # A process that it left may keep the pipe open, but what the errand itself said is in there by its end.
            if select.select([self._report], [], [], 0 if is_over else min(left, WATCH_EVERY_S))[0]:
                return os.read(self._report, _REPORT_BYTES)
            if is_over:
                return b""
        raise NotReadyError(f"{self._verb}: no end after {timeout_s:g} s")

    def is_over(self) -> bool:
        """Whether its process has ended.

        Raises:
            NotReadyError: It never will: a signal has stopped it, as the agent's processes can send to their user's.
        """
        if self.process.returncode is not None:
            return True
        ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        if ended is not None and ended.si_code in _STOPPED:
            raise NotReadyError(f"{self._verb}: its process was stopped by a signal of the agent's user")
        return ended is not None

    def stop(self) -> None:
        """End it and what it started, however far they are."""
        if self._report >= 0:
            os.close(self._report)
            self._report = -1
        if self.process.returncode is None:  # until it is waited for, nobody else has its number
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def run(home: AgentHome, verb: str, *words: str, timeout_s: float) -> dict[str, Any]:
    """Run one that neither reads nor writes a stream; what it came to."""
    return UserProcess(home, verb, *words).end(timeout_s=timeout_s)


def as_user(access: Access) -> list[str]:
    """The words before a command that make it another user's, for good; it ends when we do."""
    who = ["--reuid", str(access.uid), "--regid", str(access.gid), "--clear-groups"]
    return ["setpriv", *who, "--no-new-privs", "--inh-caps=-all", "--pdeathsig", "KILL", "--"]


_KINDS: Mapping[str, type[NodeError]] = {
    kind.__name__: kind for kind in (BadRequestError, NotReadyError, RefusedError, NodeError)
}


def told_in(verb: str, data: bytes) -> dict[str, Any]:
    """What an errand, which runs as the agent's user, came to.

    Raises:
        NodeError: It failed, or said nothing that is understood.
    """
    try:
        told = parse_object(data, largest=_REPORT_BYTES)
    except MalformedJSONError:
        raise NotReadyError(f"{verb}: the errand was cut short") from None
    if "error" in told:
        raise _KINDS.get(str(told.get("kind")), NotReadyError)(one_line(str(told["error"])))
    return told


# What follows runs as the agent's user.


def main(arguments: Sequence[str]) -> int:
    """Run one errand: ``VERB HOME REPORT [WORD…]``; ``REPORT`` is the descriptor that it answers on."""
    verb, home, report, *words = arguments
    try:
        told: Mapping[str, Any] = _VERBS[verb](Path(home), *words)
        code = 0
    except NodeError as error:
        told, code = {"error": str(error), "kind": type(error).__name__}, error.exit_code
    except MemoryError:
        said = f"{verb}: it takes more than {_MEMORY_BYTES >> 20} MiB of memory"
        told, code = {"error": said, "kind": NotReadyError.__name__}, NotReadyError.exit_code
    except OSError as error:
        told, code = {"error": f"{verb}: {error.strerror}", "kind": NotReadyError.__name__}, NotReadyError.exit_code
    with os.fdopen(int(report), "wb") as file:
        file.write(json.dumps(told).encode())
    return code


def _look(home: Path) -> dict[str, Any]:
    state, used = tar_stream.look(home)
    return {"state": state, "bytes": used}


def _pack(home: Path) -> dict[str, Any]:
    return asdict(tar_stream.pack(home, sys.stdout.buffer))


def _unpack(home: Path) -> dict[str, Any]:
    if swap.is_begun(home):
        raise RefusedError("another state is being put in place")
    packed = unpack(sys.stdin.buffer, swap.incoming(home))
    return asdict(packed)


def _switch(home: Path) -> dict[str, Any]:
    if swap.incoming(home).exists():
        swap.make_ready(home)
    swap.switch(home)
    return {}


def _settle(home: Path) -> dict[str, Any]:
    swap.switch(home)
    return {}


def _forget(home: Path) -> dict[str, Any]:
    swap.forget(home)
    return {}


def _export(home: Path) -> dict[str, Any]:
    return export.write(home, sys.stdout)


_VERBS: Mapping[str, Callable[..., Mapping[str, Any]]] = {
    "look": _look,
    "pack": _pack,
    "unpack": _unpack,
    "switch": _switch,
    "settle": _settle,
    "forget": _forget,
    "export": _export,
    "keep": snapshots.keep,
    "weigh": lambda home, name: asdict(snapshots.weigh(home, name)),
    "restore": lambda home, name: asdict(snapshots.restore(home, name)),
    "outdated": lambda home, older_than_s: {"removed": snapshots.outdated(home, float(older_than_s))},
    "rehearse": state_copy.make,
    "rehearsed": lambda home: {"schemas": state_copy.schemas(home)},
    "end_rehearsal": state_copy.end,
}
