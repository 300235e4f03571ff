"""What a promise is: a name, and a function that looks at a machine through testinfra and says what it saw."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

from testinfra.host import Host

from hermesops.model.instance import Instance

CONVERGE = "ansible-playbook ansible/playbooks/instance.yml repairs what has drifted"


@dataclass(frozen=True)
class Expected:
    """What the registry says about the machine that is looked at.

    Attributes:
        instance_id: Whose it should be; empty for a machine that belongs to nobody yet.
        epoch: The instance's.
        key_digest: SHA-256 of the instance's API key; empty when not to be compared.
        session: Name of the session in which the chat check speaks; made anew for each verification.
    """

    instance_id: str
    epoch: int = 0
    key_digest: str = ""
    session: str = field(default_factory=lambda: f"hermesops-verify-{uuid4().hex[:12]}")

    @classmethod
    def of(cls, instance: Instance, *, api_server_key: str) -> "Expected":
        """What to expect of an instance's machine; the key itself is not kept."""
        return cls(instance.id, instance.epoch, hashlib.sha256(api_server_key.encode()).hexdigest())


class BrokenPromiseError(Exception):
    """A promise does not hold; carries what was seen instead."""


Look = Callable[[Host, Expected], str]
"""Looks at a machine; returns what it saw, or raises ``BrokenPromiseError``.

It runs all its commands before it judges any answer, and which ones does not depend on answers: that is what lets them
all be known, and run at once, before the first machine has said anything.
"""


@dataclass(frozen=True)
class Promise:
    """One thing that holds on every machine of ours.

    Attributes:
        name: Stable; programs tell checks apart by it.
        title: What is promised, for people.
        hint: What to do when it does not hold.
        slow: Whether looking costs a second or more.
    """

    name: str
    title: str
    look: Look
    hint: str
    slow: bool = False


class UnseenError(Exception):
    """A command with which to look did not work, so nothing can be said about the promise."""


def output_of(host: Host, command: str) -> str:
    """What a command prints, for one that must work.

    Raises:
        UnseenError: It did not.
    """
    done = host.run(command)
    if done.rc:
        said = done.stderr.strip().splitlines()
        raise UnseenError(f"{' '.join(command.split()[:3])} ended with {done.rc}{': ' + said[-1] if said else ''}")
    return str(done.stdout)


def broken_unless(holds: object, seen: str) -> None:
    """Go on if the promise holds.

    Raises:
        BrokenPromiseError: It does not.
    """
    if not holds:
        raise BrokenPromiseError(seen)


def modes(host: Host, paths: dict[str, str]) -> str:
    """What is seen of paths that should have these owners and modes, as ``root:root 600``.

    Raises:
        BrokenPromiseError: They have others, or are absent.
    """
    listed = host.run(f"stat --format='%n %U:%G %a' {' '.join(paths)}").stdout.splitlines()
    seen = dict(line.split(" ", 1) for line in listed)
    wrong = [
        f"{path} is {seen.get(path, 'absent')}, not {mode}" for path, mode in paths.items() if seen.get(path) != mode
    ]
    broken_unless(not wrong, "; ".join(wrong))
    return f"{len(paths)} as specified"
