"""Canaries: secrets made for one run, planted wherever an environment can hold one, and looked for everywhere else.

A text that nobody has ever seen is found by its bytes. Whatever holds one and is not named in ``ALLOWED`` is a leak.
"""

import ctypes
import os
import secrets
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hermesops.access.identity import signatures
from hermesops.access.pki import authority
from hermesops.access.secrets.keyring.ring import Ring
from tests.support.real.commands.command import HERMESOPS, Ran

_EVERY_S = 0.03
_PR_SET_CHILD_SUBREAPER = 36
_LARGEST = 256 << 20

COMMAND, SERVER, SERVICE, PLUGIN = "a command", "the local world's server", "the platform's service", "Pulumi's plugin"
"""Processes of hermesops, which get what they cannot work without."""


class Leak(NamedTuple):
    """A canary where it does not belong.

    Attributes:
        canary: The variable that it was planted in.
        where: Process and place, or file, or command.
    """

    canary: str
    where: str


@dataclass(frozen=True)
class Canaries:
    """What was planted.

    Attributes:
        variables: All of the environment that is planted, by name.
        marks: What to look for, by the variable: a part of its text that nothing else has.
    """

    variables: Mapping[str, str]
    marks: Mapping[str, bytes]

    @classmethod
    def planted(cls, database: str) -> "Canaries":
        """Fresh ones.

        Args:
            database: SQLAlchemy's URL of a PostgreSQL database that takes any password.
        """
        plain = {name: f"canary{secrets.token_hex(20)}" for name in _PLAIN}
        texts = {
            **plain,
            "HERMESOPS_ROLLOUT_WEBHOOK": f"https://127.0.0.1:9/{plain['HERMESOPS_ROLLOUT_WEBHOOK']}",
            "HERMESOPS_REGISTRY_URL": f"{database}&password={plain['HERMESOPS_REGISTRY_URL']}",
            "HERMESOPS_SECRET_BACKUP_KEY": _AWS.format(plain["HERMESOPS_SECRET_BACKUP_KEY"]),
            "HERMESOPS_SECRET_BILLING_SECRET": f"whsec_{plain['HERMESOPS_SECRET_BILLING_SECRET']}",
            "HERMESOPS_SECRET_BILLING_KEY": f"rk_test_{plain['HERMESOPS_SECRET_BILLING_KEY']}",
            "HERMESOPS_SECRET_REGISTRY_KEY": Ring.fresh().to_text(),
            "HERMESOPS_SECRET_AUTHORITY_KEY": authority.fresh_key(),
            "HERMESOPS_SECRET_RELEASE_KEY": signatures.fresh_key(),
        }
        marks = {name: plain.get(name, "") or _mark(text) for name, text in texts.items()}
        return cls(texts, {name: mark.encode() for name, mark in marks.items()})

    def within(self, data: bytes) -> Iterator[str]:
        """The canaries in some bytes."""
        yield from (name for name, mark in self.marks.items() if mark in data)


def _mark(key: str) -> str:
    """A part of a key's text that no other key has: none of the lines that name its format, or hold its public part."""
    usual = {*signatures.fresh_key().splitlines(), *authority.fresh_key().splitlines()}
    own = [line for line in key.splitlines() if line not in usual]
    return max(max(own[-3:], key=len).split('"'), key=len)  # a ring of keys is JSON


_AWS = "[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = {}\n"

_PLAIN = (
    *("HERMESOPS_API_KEY", "HERMESOPS_MODEL_API_KEY", "HERMESOPS_ROLLOUT_WEBHOOK", "HERMESOPS_REGISTRY_URL"),
    *("HERMESOPS_SECRET_API_KEY", "HERMESOPS_SECRET_PULUMI_PASSPHRASE", "HERMESOPS_SECRET_ROUTER_KEY"),
    *("HERMESOPS_SECRET_BACKUP_KEY", "HERMESOPS_SECRET_SOMETHING_ELSE"),
    *("HERMESOPS_SECRET_SLACK_TOKEN", "HERMESOPS_SECRET_SLACK_SECRET", "HERMESOPS_SECRET_WHATSAPP_TOKEN"),
    *("HERMESOPS_SECRET_WHATSAPP_SECRET", "HERMESOPS_SECRET_WHATSAPP_KEY", "HERMESOPS_SECRET_DISCORD_TOKEN"),
    *("HERMESOPS_SECRET_TELEGRAM_TOKEN", "HERMESOPS_SECRET_TELEGRAM_SECRET", "HERMESOPS_SECRET_CONNECTOR_KEY"),
    *("HERMESOPS_SECRET_BILLING_SECRET", "HERMESOPS_SECRET_BILLING_KEY", "HERMESOPS_SECRET_CONNECTIONS_KEY"),
    # Of others, in the same shell.
    *("AWS_SECRET_ACCESS_KEY", "PULUMI_ACCESS_TOKEN", "PULUMI_CONFIG_PASSPHRASE", "OPENAI_API_KEY", "GITHUB_TOKEN"),
    "UV_PUBLISH_TOKEN",
)

_SERVICES = {"HERMESOPS_REGISTRY_URL", "HERMESOPS_SECRET_REGISTRY_KEY", "HERMESOPS_SECRET_AUTHORITY_KEY"}

ALLOWED: Mapping[str, Collection[str]] = {
    # The service reads the registry's sealed rows and signs certificates; the server starts it, and asks real models.
    # A bucket is opened by Amazon's own variables, where the registry's or Pulumi's secrets may be, too.
    SERVICE: {*_SERVICES, "AWS_SECRET_ACCESS_KEY"},
    SERVER: {*_SERVICES, "HERMESOPS_MODEL_API_KEY", "AWS_SECRET_ACCESS_KEY"},
    # It orders machines.
    PLUGIN: {"HERMESOPS_API_KEY", "HERMESOPS_SECRET_API_KEY"},
}
"""Which canaries may be in the environment of which process; of every other program, none. In command lines: none."""


@dataclass
class Watcher:
    """Samples the environments and command lines of everything that this process has started.

    Attributes:
        seen: Programs that were looked at, by their label, with how often.
    """

    canaries: Canaries
    leaks: set[Leak] = field(default_factory=set)
    seen: dict[str, int] = field(default_factory=dict)

    def observe(self) -> None:
        """Look once."""
        for pid in _descendants(os.getpid()):
            words, environment = _read(pid, "cmdline"), _read(pid, "environ")
            if not words:
                continue
            label = _label([word.decode(errors="replace") for word in words.split(b"\0")[:-1]])
            self.seen[label] = self.seen.get(label, 0) + 1
            self.leaks |= {Leak(name, f"{label}: command line") for name in self.canaries.within(words)}
            if label != COMMAND:
                names = set(self.canaries.within(environment)) - set(ALLOWED.get(label, ()))
                self.leaks |= {Leak(name, f"{label}: environment") for name in names}


@contextmanager
def watching(canaries: Canaries) -> Iterator[Watcher]:
    """Watch until the block ends; what outlives its parent stays a descendant of ours meanwhile."""
    watcher, ended = Watcher(canaries), threading.Event()
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def work() -> None:
        while not ended.wait(_EVERY_S):
            watcher.observe()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield watcher
    finally:
        ended.set()
        thread.join()
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def in_output(canaries: Canaries, runs: Sequence[Ran]) -> set[Leak]:
    """Canaries that commands printed."""
    return {
        Leak(name, f"hermesops {' '.join(ran.arguments)}: output")
        for ran in runs
        for name in canaries.within(f"{ran.stdout}\n{ran.stderr}".encode())
    }


def in_files(canaries: Canaries, *folders: Path) -> set[Leak]:
    """Canaries in files below folders: their names and their bytes, whatever they are."""
    leaks = set[Leak]()
    for folder in folders:
        for file in folder.rglob("*"):
            leaks |= {Leak(name, str(file)) for name in canaries.within(os.fsencode(file))}
            if file.is_symlink() or not file.is_file() or file.stat().st_size > _LARGEST:
                continue
            leaks |= {Leak(name, str(file)) for name in canaries.within(file.read_bytes())}
    return leaks


def _label(words: Sequence[str]) -> str:
    line = " ".join(words)
    if any(Path(word).name == "pulumi-resource-justavps" for word in words):
        return PLUGIN
    if " identity serve --socket " in f"{line} ":
        return SERVICE
    if "-m hermesops" in line and " local serve" in line:
        return SERVER
    # The second: a step of a runbook, which needs what the operator's own command needs.
    if str(HERMESOPS) in words or words[1:4] == ["-m", "hermesops", "--env"]:
        return COMMAND
    return Path(words[0]).name if words else ""


def _descendants(root: int) -> list[int]:
    parents = dict[int, int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _read(int(entry.name), "stat")):
            parents[int(entry.name)] = int(stat.rpartition(b")")[2].split()[1])
    pids, known = list[int](), {root}
    for pid in sorted(parents):  # a child may have a smaller number than its parent: walk up
        walk, path = pid, list[int]()
        while walk not in known and walk in parents and walk not in path:
            path.append(walk)
            walk = parents[walk]
        if walk in known and path:
            known.update(path)
            pids += path
    return pids


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
