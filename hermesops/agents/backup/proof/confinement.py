"""Confines a process to one folder and its pipes, for good, before it reads a byte that an agent wrote.

A process confines itself instead of being started confined: Python and our own code are loaded by then, so it needs no
other file of the computer, wherever they are installed. Nothing of the controller's may be imported here.

Source: namespaces(7), user_namespaces(7), chroot(2), capset(2), prctl(2), seccomp(2), getrlimit(2); numbers of system
calls from asm/unistd_64.h and asm-generic/unistd.h.
"""

import ctypes
import json
import os
import platform
import resource
import signal
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

_NEW_USER = 0x10000000
_NEW_REST = 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
"""Host name, System V objects, process numbers, network."""

_NOBODY = 65534
_PARENT_DEATH_SIGNAL, _DUMPABLE, _SECCOMP, _NO_NEW_PRIVILEGES = 1, 4, 22, 38
_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""As the kernel's audit names them, and which column below is theirs."""

_FORBIDDEN = (
    # clone, clone3, fork, vfork, execve, execveat
    *((56, 220), (435, 435), (57, -1), (58, -1), (59, 221), (322, 281)),
    # socket, socketpair, connect, bind, sendto, sendmsg
    *((41, 198), (53, 199), (42, 203), (49, 200), (44, 206), (46, 211)),
    # ptrace, process_vm_readv, process_vm_writev, kill, tkill
    *((101, 117), (310, 270), (311, 271), (62, 129), (200, 130)),
    # unshare, setns, mount, umount2, pivot_root, chroot, open_by_handle_at
    *((272, 97), (308, 268), (165, 40), (166, 39), (155, 41), (161, 51), (304, 265)),
    # mknod, mknodat, symlink, symlinkat, link, linkat
    *((133, -1), (259, 33), (88, -1), (266, 36), (86, -1), (265, 37)),
    # bpf, perf_event_open, userfaultfd, io_uring_setup, io_uring_enter, add_key, request_key, keyctl
    *((321, 280), (298, 241), (323, 282), (425, 425), (426, 426), (248, 217), (249, 218), (250, 219)),
    # kexec_load, init_module, finit_module, modify_ldt, personality
    *((246, 104), (175, 105), (313, 273), (154, -1), (135, 92)),
)
"""System calls that reading a file does not need, and with which attacks on a kernel begin."""


@dataclass(frozen=True)
class Limits:
    """Resources of a confined process: bytes of a file and of memory, seconds of processor time."""

    file_bytes: int
    memory_bytes: int
    processor_s: int


class UnconfinedError(Exception):
    """The process still has rights; it must not read anything."""


def confine(folder: Path, limits: Limits) -> str:
    """Leave this process only a folder, which becomes its whole file system, and its three standard streams.

    The caller goes on in a child; this process waits for it and ends with it. Both end when their parent does.

    The folder is empty, and this user's own.

    Returns:
        How it is confined, in words for people.

    Raises:
        UnconfinedError: The kernel does not allow it.
    """
    is_root, user, group = os.geteuid() == 0, os.geteuid(), os.getegid()
    try:
        _control(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        _call("unshare", _NEW_REST if is_root else _NEW_REST | _NEW_USER)
        if not is_root:
            _map_ourselves(user, group)
        if child := os.fork():
            _end_with(child, limits)
        if is_root:
            os.chown(folder, _NOBODY, _NOBODY)
        os.chroot(folder)
        os.chdir("/")
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        _limit(limits)
        if is_root:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        _drop_capabilities()
        _control(_PARENT_DEATH_SIGNAL, signal.SIGKILL)  # a change of users has undone it
        _control(_DUMPABLE, 0)
        _control(_NO_NEW_PRIVILEGES, 1)
        forbidden = _forbid_calls()
    except OSError as error:
        raise UnconfinedError(f"{error.strerror or error}") from error
    who = "as user nobody" if is_root else "in a user namespace"
    return f"{who}, without network, other files and {'new' if forbidden else 'more'} processes"


def _map_ourselves(user: int, group: int) -> None:
    proc = Path("/proc/self")
    (proc / "setgroups").write_text("deny")
    (proc / "uid_map").write_text(f"{user} {user} 1")
    (proc / "gid_map").write_text(f"{group} {group} 1")


def _end_with(child: int, limits: Limits) -> NoReturn:
    """Wait for the confined process; where it was ended, say so in its place."""
    _, status, used = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        took_s = used.ru_utime + used.ru_stime
        why = (
            f"reading the backup takes more than {limits.processor_s} s of processor time"
            if took_s > 0.9 * limits.processor_s
            else f"the reader of the backup ended with signal {os.WTERMSIG(status)}"
        )
        os.write(1, json.dumps({"error": why}).encode())
    os._exit(0)


def _limit(limits: Limits) -> None:
    for what, most in {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits.processor_s,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_NPROC: 0,
    }.items():
        hard = resource.getrlimit(what)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (bound, bound))


def _drop_capabilities() -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _call("capset", ctypes.create_string_buffer(header), ctypes.create_string_buffer(24))


def _forbid_calls() -> bool:
    """Have the kernel refuse system calls that reading does not need, where their numbers are known here."""
    machine = _ARCHITECTURES.get(platform.machine())
    if machine is None:
        return False
    audit, column = machine
    numbers = [call[column] for call in _FORBIDDEN if call[column] >= 0]
    program = _program(audit, numbers)
    code = ctypes.create_string_buffer(program)
    length = len(program) // 8
    filter_ = ctypes.create_string_buffer(struct.pack("@HP", length, ctypes.addressof(code)))
    _control(_SECCOMP, _FILTER, ctypes.addressof(filter_))
    return True


def _program(audit: int, numbers: list[int]) -> bytes:
    """A filter that knows one architecture: another one's call ends the process, a forbidden one fails with EPERM."""
    load, equals, at_least, answer = 0x20, 0x15, 0x35, 0x06
    allow, kill, refuse = 0x7FFF0000, 0x80000000, 0x00050000 | 1
    count = len(numbers)
    steps = [
        (load, 0, 0, 4),
        (equals, 1, 0, audit),
        (answer, 0, 0, kill),
        (load, 0, 0, 0),
        (at_least, count + 1, 0, 0x40000000),  # the second table of numbers of x86-64
        *((equals, count - place, 0, number) for place, number in enumerate(numbers)),
        (answer, 0, 0, allow),
        (answer, 0, 0, refuse),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _control(option: int, *values: int) -> None:
    words = (*values, 0, 0, 0, 0)[:4]
    _call("prctl", ctypes.c_int(option), *(ctypes.c_ulong(word) for word in words))


def _call(name: str, *words: object) -> None:
    if getattr(_LIBC, name)(*words):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


_LIBC = ctypes.CDLL(None, use_errno=True)
