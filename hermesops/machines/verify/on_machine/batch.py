"""Run commands side by side and print one JSON list: [exit code, stdout, stderr] of each, in base64; null if too slow.

Usage: ``batch.py LIMIT_S COMMANDS`` with the commands as a JSON list. Each is run as the toolbox runs it: by /bin/sh,
with this process's environment and an empty standard input. One that is a list (source, arguments) is a program for a
Python like this one's: it runs in a copy of this process, which saves starting another. Nothing heavier than ``os`` is
imported: this starts on every machine at once.
"""

import base64
import json
import os
import select
import signal
import sys
import time


def start(command: "str | list[str]") -> tuple[int, int, int]:
    """Start one command in its own process group; returns its id and files with its output and errors."""
    out, err = os.memfd_create("out"), os.memfd_create("err")
    if isinstance(command, list):
        return fork(command, out, err), out, err
    wiring = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, err, 2),
    ]
    environment = os.environ  # noqa: TID251 - a program of its own, which hands its environment on
    pid = os.posix_spawn("/bin/sh", ["/bin/sh", "-c", command], environment, file_actions=wiring, setpgroup=0)
    return pid, out, err


def fork(program: "list[str]", out: int, err: int) -> int:
    """Run a Python program in a copy of this process, as ``python3 -c`` would."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        for target, descriptor in ((0, os.open("/dev/null", os.O_RDONLY)), (1, out), (2, err)):
            os.dup2(descriptor, target)
        sys.argv = ["-c", *program[1:]]
        exec(compile(program[0], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - that is what it is for
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:  # noqa: BLE001 - Python's own last resort, too
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def finish(started: tuple[int, int, int], deadline: float) -> "list[int | str] | None":
    """Wait for one command; returns its result, or nothing when it had to be stopped."""
    pid, out, err = started
    ended = select.poll()
    ended.register(os.pidfd_open(pid), select.POLLIN)
    in_time = bool(ended.poll(max(0.0, deadline - time.monotonic()) * 1000))
    if not in_time:
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return [128 - code if code < 0 else code, encoded(out), encoded(err)] if in_time else None


def encoded(descriptor: int) -> str:
    """Everything in a file, in base64."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(descriptor, "rb") as file:
        return base64.b64encode(file.read()).decode()


if __name__ == "__main__":
    until = time.monotonic() + float(sys.argv[1])
    running = [start(command) for command in json.loads(sys.argv[2])]
    sys.stdout.write(json.dumps([finish(command, until) for command in running]))
