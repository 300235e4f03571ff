"""The shell of a simulated machine: it runs the commands that hermesops itself sends, and exits 127 for the rest.

There is no shell here, only commands with ``;``, ``&&`` and ``||`` between them.
"""

import base64
import json
import shlex
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hermesops.localcloud.drivers.sim.disk import ACCOUNTS, names_in, normal
from hermesops.localcloud.drivers.sim.guest import Guest
from hermesops.localcloud.drivers.sim.store import Entry
from hermesops.vendor.channel import detached_scripts
from hermesops.vendor.channel.toolbox import BINARY
from hermesops.wire.protocol import PROGRAM

NOT_FOUND = 127
_JOINTS = {";", "&&", "||"}
_PATH = ("/usr/local/bin/", "/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/")


@dataclass(frozen=True)
class Done:
    """The exit code and outputs of a command."""

    code: int = 0
    out: str = field(default="", repr=False)
    err: str = field(default="", repr=False)


def run(guest: Guest, command: str) -> Done:
    """Run a command line as root."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        return Done(2, err=f"sh: {error}\n")
    if words[:2] == ["sh", "-c"] and words[3:4] == ["sh"]:
        return _script(guest, words[2], words[4:])
    if words[:4] == ["python3", "-I", "-S", "-c"]:
        return _program(guest, words[4:])
    return _line(guest, command)


def _line(guest: Guest, command: str) -> Done:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    tokens, done, out, err = [*lexer, ";"], Done(), "", ""
    words: list[str] = []
    joint = ";"
    for token in tokens:
        if token not in _JOINTS:
            words.append(token)
            continue
        if words and (joint == ";" or (joint == "&&") == (done.code == 0)):
            done = _command(guest, words)
            out, err = out + done.out, err + done.err
        words, joint = [], token
    return Done(done.code, out, err)


def _command(guest: Guest, words: Sequence[str]) -> Done:
    if words[0] == "exec" and len(words) > 1:
        words = words[1:]
    if words[0] in {PROGRAM, PROGRAM.rpartition("/")[2]}:
        return Done(*guest.node(words[1:]))
    name = words[0]
    for folder in _PATH:
        name = name.removeprefix(folder)
    known = _COMMANDS.get(name)
    if known is None or any(set(word) <= set("<>|&()") for word in words):
        return Done(NOT_FOUND, err=f"sh: 1: {words[0]}: not found (this machine is simulated)\n")
    return known(guest, list(words[1:]))


def _echo(_: Guest, words: list[str]) -> Done:
    return Done(out=" ".join(words) + "\n")


def _cat(guest: Guest, words: list[str]) -> Done:
    out, err = "", ""
    for word in words:
        entry = guest.disk.entry(normal(word))
        if word == "/etc/machine-id":
            out += f"{guest.machine_id}\n"
        elif word == "/proc/sys/kernel/random/boot_id":
            out += f"{guest.boot_id}\n"
        elif entry is None or not stat.S_ISREG(entry.mode):
            err += f"cat: {word}: No such file or directory\n"
        else:
            out += entry.data.decode(errors="replace")
    return Done(1 if err else 0, out, err)


def _ls(guest: Guest, words: list[str]) -> Done:
    out, err = "", ""
    for word in (word for word in words if not word.startswith("-")):
        path = normal(word)
        if guest.disk.is_folder(path):
            out += "".join(f"{name}\n" for name in names_in(path, guest.disk))
        elif guest.disk.entry(path):
            out += f"{word}\n"
        else:
            err += f"ls: cannot access '{word}': No such file or directory\n"
    return Done(2 if err else 0, out, err)


def _test(guest: Guest, words: list[str]) -> Done:
    match words:
        case ["-e" | "-f" | "-s" as kind, path]:
            entry = guest.disk.entry(normal(path))
            holds = entry is not None and (kind != "-s" or bool(entry.data))
            return Done(0 if holds and (kind == "-e" or (entry is not None and stat.S_ISREG(entry.mode))) else 1)
        case ["-d", path]:
            return Done(0 if guest.disk.is_folder(normal(path)) else 1)
    return Done(2, err="test: not understood by a simulated machine\n")


def _rm(guest: Guest, words: list[str]) -> Done:
    flags = "".join(word for word in words if word.startswith("-"))
    err = ""
    for word in (word for word in words if not word.startswith("-")):
        if not guest.disk.remove(normal(word)) and "f" not in flags:
            err += f"rm: cannot remove '{word}': No such file or directory\n"
    return Done(1 if err else 0, err=err)


def _truncate(guest: Guest, words: list[str]) -> Done:
    """Empty files, as ``truncate -s 0`` does; another size is not understood."""
    match words:
        case ["-s", "0", *paths] if paths:
            for path in map(normal, paths):
                if entry := guest.disk.entry(path):
                    guest.disk.put(path, replace(entry, data=b""))
            return Done()
    return Done(1, err="truncate: not understood by a simulated machine\n")


def _sleep(guest: Guest, words: list[str]) -> Done:
    guest.sleep(float(words[0]))
    return Done()


def _power(verb: str) -> Callable[[Guest, list[str]], Done]:
    return lambda guest, _: Done(*guest.units([verb]))


_COMMANDS: dict[str, Callable[[Guest, list[str]], Done]] = {
    "true": lambda *_: Done(),
    ":": lambda *_: Done(),
    "false": lambda *_: Done(1),
    "echo": _echo,
    "hostname": lambda guest, _: Done(out=f"{guest.record.hostname}\n"),
    "whoami": lambda *_: Done(out="root\n"),
    "cat": _cat,
    "ls": _ls,
    "test": _test,
    "rm": _rm,
    "sleep": _sleep,
    "truncate": _truncate,
    "systemctl": lambda guest, words: Done(*guest.units(words)),
    "journalctl": lambda *_: Done(out="-- No entries --\n"),
    "reboot": _power("reboot"),
    "poweroff": _power("poweroff"),
    "getent": lambda _, words: Done(0 if words[1:] and words[1] in ACCOUNTS else 2),
}


# Detached commands of hermesops's channel: here they end within the request that starts them, and what they came to
# is stored before it is answered, so that a repeated question gets the same answer.

_START, _LOOK, _STOP = (
    shlex.split(script)[2]
    for script in (
        detached_scripts.start("folder", "true", "1", "1", "1"),
        detached_scripts.observe("folder", "1", "1"),
        detached_scripts.stop("folder"),
    )
)


def _script(guest: Guest, script: str, arguments: Sequence[str]) -> Done:
    folder = arguments[0] if arguments else ""
    if script == BINARY and len(arguments) > 1:
        done = run(guest, arguments[1])
        return Done(out=f"{done.code}\ninline\n{_encoded(done)}")
    if script == _START and len(arguments) > detached_scripts.COMMAND:
        if guest.disk.entry(f"{folder}/outcome") is None and guest.disk.entry(f"{folder}/claim") is None:
            guest.disk.put(f"{folder}/outcome", _outcome(run(guest, arguments[detached_scripts.COMMAND])))
        return _outcome_of(guest, folder) or Done(out=f"{detached_scripts.REFUSED}\n")
    if script in {_LOOK, _STOP}:
        if outcome := _outcome_of(guest, folder):
            return outcome if script == _LOOK else Done()
        guest.disk.put(f"{folder}/claim", Entry(stat.S_IFREG | 0o600, 0, 0, b"observe\n"))
        return Done(out=f"{detached_scripts.NEVER} {int(guest.uptime_s)}\n")
    return Done(NOT_FOUND, err="sh: a simulated machine runs no scripts\n")


def _outcome(done: Done) -> Entry:
    return Entry(stat.S_IFREG | 0o600, 0, 0, f"{detached_scripts.DONE} {done.code} inline\n{_encoded(done)}".encode())


def _encoded(done: Done) -> str:
    return "".join(f"{base64.b64encode(stream.encode()).decode()}\n" for stream in (done.out, done.err))


def _outcome_of(guest: Guest, folder: str) -> Done | None:
    entry = guest.disk.entry(f"{folder}/outcome")
    return Done(out=entry.data.decode()) if entry else None


def _program(guest: Guest, arguments: Sequence[str]) -> Done:
    """A Python program of hermesops's checks: many commands at once, and nothing else."""
    try:
        commands = json.loads(arguments[-1])
    except (IndexError, ValueError):
        commands = None
    if not isinstance(commands, list) or not all(isinstance(each, (str, list)) for each in commands):
        return Done(NOT_FOUND, err="python3: a simulated machine runs no programs\n")
    answers = [run(guest, each) if isinstance(each, str) else Done(NOT_FOUND) for each in commands]
    encoded = [[each.code, *(base64.b64encode(s.encode()).decode() for s in (each.out, each.err))] for each in answers]
    return Done(out=json.dumps(encoded))
