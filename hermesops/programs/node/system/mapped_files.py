"""Files that a process has mapped, as the kernel lists them."""

from pathlib import Path

_BYTES = 8 << 20


def named(pid: int, beginning: str) -> frozenset[str]:
    """Paths of the mapped files whose name begins so; a removed file's ends with ``(deleted)``. None of no process.

    Source: proc(5), ``/proc/PID/maps``: the path is the sixth column.
    """
    try:
        with Path(f"/proc/{pid}/maps").open("rb") as file:
            lines = file.read(_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return frozenset()
    paths = {words[5] for line in lines if len(words := line.split(None, 5)) > 5}  # noqa: PLR2004 - the sixth column
    return frozenset(path for path in paths if path.rpartition("/")[2].startswith(beginning))
