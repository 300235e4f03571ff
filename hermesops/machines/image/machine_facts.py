"""The distribution, Python and packages of a machine, asked in one command."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from hermesops.base.waiting import until
from hermesops.errors import RefusedError
from hermesops.vendor.channel import Channel, last_words, object_in, understood

_ASKED_S = 180.0
_MOST_PACKAGES = 10_000
_WORD = re.compile(r"[\w.+:~-]{0,200}", re.ASCII)
"""Characters of names and versions of packages, which go into manifests and to pip."""

# The first python3 of the base is the one the agent is installed for.
_SCRIPT = r"""
import glob, json, os, platform, subprocess, sys
release = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release") if "=" in line)
debs = subprocess.run(["dpkg-query", "--show", "--showformat=${Package} ${Version}\n"], capture_output=True, text=True)
infos = glob.glob("/opt/hermes/current/venv/lib/python3*/site-packages/*.dist-info")
names = (os.path.basename(path)[: -len(".dist-info")].rpartition("-") for path in infos)
print(json.dumps({
    "distribution": release.get("ID", "").strip('"'),
    "version": release.get("VERSION_ID", "").strip('"'),
    "architecture": platform.machine(),
    "python": "%d.%d" % sys.version_info[:2],
    "machine_id": open("/etc/machine-id").read().strip(),
    "debian": dict(line.split(" ", 1) for line in debs.stdout.splitlines()),
    "agent": {name: version for name, _, version in names},
    "release": os.path.basename(os.readlink("/opt/hermes/current")) if infos else "",
}))
"""


@dataclass(frozen=True)
class Survey:
    """Distribution, Python and packages of a machine.

    Attributes:
        distribution: As ``debian``; ``version`` as ``12``.
        python: The system's, as ``3.11``.
        machine_id: Its machine-id at this moment.
        agent: Version of each Python package in the running slot; empty where there is none.
        release: In the running slot; empty where there is none.
    """

    distribution: str
    version: str
    architecture: str
    python: str
    machine_id: str
    debian: Mapping[str, str]
    agent: Mapping[str, str]
    release: str

    def base(self) -> dict[str, object]:
        """All but its packages and its identity."""
        return {key: asdict(self)[key] for key in ("distribution", "version", "architecture", "python")}


async def survey(channel: Channel) -> Survey:
    """Ask a machine; changes nothing.

    Raises:
        RefusedError: It has no Python 3, or not the files every Debian has.
        UnavailableError: It does not answer in time, or with something else.
    """
    # The script goes in by standard input: no quoting, and no file on the machine.
    observe = partial(channel.run, "exec /usr/bin/python3 -I -", stdin=_SCRIPT.encode())
    done = await until(observe, what=f"facts of machine {channel.machine_id}", timeout_s=_ASKED_S)
    if done.exit_code != 0:
        raise RefusedError(
            f"machine {channel.machine_id} is no base to build from: {last_words(done)}",
            hint="bases are Debian and Ubuntu with python3",
        )
    facts = object_in(done, channel.machine_id, "a question about its base")
    with understood(channel.machine_id, "a question about its base"):
        return Survey(
            distribution=_word(facts["distribution"]),
            version=_word(facts["version"]),
            architecture=_word(facts["architecture"]),
            python=_word(facts["python"]),
            machine_id=_word(facts["machine_id"]),
            debian=_packages(facts["debian"]),
            agent=_packages(facts["agent"]),
            release=_word(facts["release"]),
        )


def _packages(value: Any) -> dict[str, str]:  # noqa: ANN401 - JSON
    if len(value) > _MOST_PACKAGES:
        raise ValueError
    return {_word(name): _word(version) for name, version in value.items()}


def _word(value: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise ValueError
    return value
