"""An errand: this program run again as the agent's user, for whatever reads or writes the agent's own files.

The user gets no more than the agent has itself, so a link, a database or a name that the agent has planted leads
nowhere that the agent could not go. What an errand says is believed no further than that: it is numbers and digests.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from hermesops.node import archive, export, keeping, rehearsal, switch
from hermesops.node.errors import BadRequestError, NodeError, NotReadyError, RefusedError
from hermesops.node.files import Access
from hermesops.node.unpack import unpack

WORD = "errand"
"""First argument of the program that makes it an errand; not for people."""

_REPORT_BYTES = 1 << 20
_END_S = 60.0


@dataclass(frozen=True)
class Home:
    """An agent's home, and whose it is.

    Attributes:
        path: HERMES_HOME.
        access: The agent's user.
        program: Where hermes-node is.
    """

    path: Path
    access: Access
    program: Path


class Errand:
    """One that runs.

    Args:
        home: Of which agent.
        verb: A key of ``_VERBS``.
        words: What belongs to the verb.
        stdin: What it reads.
        stdout: What it writes.
    """

    def __init__(
        self,
        home: Home,
        verb: str,
        *words: str,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
    ) -> None:
        self._verb = verb
        report, told = os.pipe()
        try:
            self.process = subprocess.Popen(
                [
                    *as_user(home.access),
                    *(sys.executable, "-I", str(home.program), WORD, verb, str(home.path), str(told), *words),
                ],
                stdin=stdin,
                stdout=subprocess.DEVNULL if stdout is None else stdout,
                stderr=subprocess.DEVNULL,
                pass_fds=[told],
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            )
        except OSError as error:
            os.close(report)
            raise NotReadyError(f"setpriv: {error.strerror}") from error
        finally:
            os.close(told)
        self._report = os.fdopen(report, "rb")

    def end(self, *, timeout_s: float = _END_S) -> dict[str, Any]:
        """Wait for its end; what it came to.

        Raises:
            NodeError: It failed.
        """
        try:
            ready, _, _ = select.select([self._report], [], [], timeout_s)
            data = self._report.read(_REPORT_BYTES) if ready else b""
            if not ready:
                raise NotReadyError(f"{self._verb}: no end after {timeout_s:g} s")
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise NotReadyError(f"{self._verb}: no end after {timeout_s:g} s") from error
        finally:
            self.stop()
        return _told(self._verb, data)

    def stop(self) -> None:
        """End it, however far it is."""
        self._report.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def run(home: Home, verb: str, *words: str, timeout_s: float) -> dict[str, Any]:
    """Run one that neither reads nor writes a stream; what it came to."""
    return Errand(home, verb, *words).end(timeout_s=timeout_s)


def as_user(access: Access) -> list[str]:
    """The words before a command that make it another user's, for good; it ends when we do."""
    who = ["--reuid", str(access.uid), "--regid", str(access.gid), "--clear-groups"]
    return ["setpriv", *who, "--no-new-privs", "--inh-caps=-all", "--pdeathsig", "KILL", "--"]


_KINDS: Mapping[str, type[NodeError]] = {
    kind.__name__: kind for kind in (BadRequestError, NotReadyError, RefusedError, NodeError)
}


def _told(verb: str, data: bytes) -> dict[str, Any]:
    try:
        told = json.loads(data)
    except ValueError:
        raise NotReadyError(f"{verb}: the errand was cut short") from None
    if not isinstance(told, dict):
        raise NotReadyError(f"{verb}: the errand said nothing that is understood")
    if "error" in told:
        raise _KINDS.get(str(told.get("kind")), NotReadyError)(str(told["error"])[:400])
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
    except OSError as error:
        told, code = {"error": f"{verb}: {error.strerror}", "kind": NotReadyError.__name__}, NotReadyError.exit_code
    with os.fdopen(int(report), "wb") as file:
        file.write(json.dumps(told).encode())
    return code


def _look(home: Path) -> dict[str, Any]:
    state, used = archive.look(home)
    return {"state": state, "bytes": used}


def _pack(home: Path) -> dict[str, Any]:
    return asdict(archive.pack(home, sys.stdout.buffer))


def _unpack(home: Path) -> dict[str, Any]:
    if switch.is_begun(home):
        raise RefusedError("another state is being put in place")
    packed = unpack(sys.stdin.buffer, switch.incoming(home))
    return asdict(packed)


def _switch(home: Path) -> dict[str, Any]:
    if switch.incoming(home).exists():
        switch.make_ready(home)
    switch.switch(home)
    return {}


def _settle(home: Path) -> dict[str, Any]:
    switch.switch(home)
    return {}


def _forget(home: Path) -> dict[str, Any]:
    switch.forget(home)
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
    "keep": keeping.keep,
    "weigh": lambda home, name: asdict(keeping.weigh(home, name)),
    "put_back": lambda home, name: asdict(keeping.put_back(home, name)),
    "outdated": lambda home, older_than_s: {"removed": keeping.outdated(home, float(older_than_s))},
    "rehearse": rehearsal.make,
    "rehearsed": lambda home: {"schemas": rehearsal.schemas(home)},
    "end_rehearsal": rehearsal.end,
}
