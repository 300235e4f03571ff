"""Limits of a stranger's program, and the refusal of one that reached a limit or failed otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermesops.errors import RefusedError

_MIB = 1 << 20
_SHOWN = 400
_CHECK = "compare the SHA-256 with the one that upstream publishes: upstream's own stays far below this limit"
_BUSY = f"run the command again on a computer that is less busy; if it ends like this again, {_CHECK}"
_NO_NETWORK = ("network is unreachable", "name resolution", "name or service not known", "temporary failure in name")
_NO_MEMORY = ("memoryerror", "cannot allocate memory", "bad_alloc", "memory allocation of", "out of memory")
_NO_PROCESS = ("resource temporarily unavailable", "can't start new thread", "cannot fork")
_NO_FILE = ("file too large", "no space left on device")


@dataclass(frozen=True)
class Limits:
    """Limits of a program.

    Attributes:
        seconds: Until it is ended.
        memory_bytes: Memory of all its processes and files where systemd counts it, else address space of each process.
            Where systemd counts it, it is at most half of this computer's.
        files_bytes: All files that it has and makes, in memory.
        output_bytes: Its result, and each file that it writes.
        processes: Processes and threads at once.
    """

    seconds: float = 600.0
    memory_bytes: int = 4096 * _MIB
    files_bytes: int = 2048 * _MIB
    output_bytes: int = 256 * _MIB
    processes: int = 64


@dataclass(frozen=True)
class Ending:
    """The end of a program.

    Attributes:
        code: Its exit code; ``None`` for one that was ended because it ran too long.
        kills: Processes of it that the kernel ended because they used too much memory.
        is_started: Whether systemd made the unit around it; it counts the kills at the end of each.
        counted_bytes: The limit of its memory that systemd counted; 0 where address space was limited instead.
    """

    code: int | None
    kills: int = 0
    is_started: bool = True
    counted_bytes: int = 0

    @property
    def is_good(self) -> bool:
        """Whether it succeeded and lost no process to the limit of memory."""
        return self.code == 0 and not self.kills and self.is_started


def refusal(title: str, ending: Ending, messages: str, limits: Limits) -> RefusedError:
    """The error of a program that did not end well. Pure.

    Args:
        title: Names the program.
        messages: The end of its standard error, which a stranger wrote.
    """
    last = last_line(messages)
    if ending.code is None:
        return RefusedError(f"{title} did not end within {limits.seconds:g} s and was stopped", hint=_BUSY)
    if ending.kills:
        used = f"{title} used more than {ending.counted_bytes // _MIB} MiB of memory and was stopped"
        return RefusedError(used, hint=_CHECK)
    if not ending.is_started:
        return RefusedError(f"systemd starts no unit around a build here: {last}", hint="build on another computer")
    if last.startswith("bwrap:"):
        return RefusedError(
            f"this computer does not allow the walls around a build: {last}",
            hint="allow user namespaces here, or build on another computer",
        )
    if _has(messages, _NO_NETWORK):
        return RefusedError(f"{title} asked for a network, and builds have none: {last}")
    reached = [words for words, problem in _problems(ending, limits).items() if _has(last, problem)]
    if reached:
        return RefusedError(f"{title} failed {reached[0]}: {last}", hint=_CHECK)
    return RefusedError(f"{title} failed: {last}")


def _problems(ending: Ending, limits: Limits) -> Mapping[str, tuple[str, ...]]:
    """The limits that a program notices itself, with the words of its last message."""
    memory = f"at its limit of {limits.memory_bytes // _MIB} MiB of memory"
    files = f"at its limits of {limits.output_bytes // _MIB} MiB a file and {limits.files_bytes // _MIB} MiB of files"
    counted = {f"at its limit of {limits.processes} processes": _NO_PROCESS, files: _NO_FILE}
    return counted if ending.counted_bytes else {memory: _NO_MEMORY, **counted}


def _has(text: str, words: tuple[str, ...]) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in words)


def last_line(messages: str) -> str:
    """The last line of messages that a stranger wrote, short and printable."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    last = (lines[-1] if lines else "no reason given")[:_SHOWN]
    return "".join(character if character.isprintable() else "?" for character in last)
