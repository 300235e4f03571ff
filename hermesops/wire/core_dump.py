"""Keeps this process's memory secret: no core dump, and no access by other processes of the same user.

Source: core(5), prctl(2) ``PR_SET_DUMPABLE``, proc(5), getrlimit(2); linux/prctl.h.
"""

import resource

_PR_SET_DUMPABLE = 4


def forbid_small() -> None:
    """Set the limit of core dumps to 0 for this process and its children.

    A kernel that hands dumps to a program may do so nevertheless: see ``forbid``.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def forbid() -> None:
    """Let the kernel dump nothing of this process, and let nobody but root trace it or read its memory.

    Children that are other programs may be dumped again as far as ``forbid_small`` lets them. A kernel without that
    call is not changed.
    """
    import ctypes  # noqa: PLC0415 - some milliseconds, which a command that holds no secret saves

    forbid_small()
    try:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (OSError, AttributeError):
        return
