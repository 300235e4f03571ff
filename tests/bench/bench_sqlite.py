"""The same agent with Debian's SQLite and with its release's, on one booted machine, in turns.

Both are releases of the image's hermes-agent, apart only in the files that bring SQLite. Processor time stands beside
the writes: on a busy computer it says more than the clock.
"""

import json
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.machines.release.releases import HandedOut
from hermesops.machines.release.sqlite import is_of_sqlite
from hermesops.model.rollout.release import ReleaseId
from hermesops.wire.documents.lock import Lock
from hermesops.wire.protocol import PROGRAM
from tests.bench.figures import Board, report
from tests.support.images.builds import Made, Workshop, make
from tests.support.real.machines.agents import Agent, agents_world, living_agent
from tests.support.real.machines.machine import base_python

ROUNDS = 4
TURNS = 12
WRITES_S = 4.0
_DEBIANS, _OURS = "Debian's", "the release's"
_START = """
import subprocess, time, urllib.request
subprocess.run(["systemctl", "stop", "hermes-gateway.service"], check=True)
begun = time.perf_counter()
subprocess.run(["systemctl", "start", "--no-block", "hermes-gateway.service"], check=True)
while time.perf_counter() - begun < 90:
    try:
        urllib.request.urlopen("http://127.0.0.1:8642/health", timeout=5).read()
        break
    except OSError:
        time.sleep(0.02)
else:
    raise SystemExit("the gateway is not healthy after 90 s")
print(time.perf_counter() - begun)
"""
_TURNS = """
import http.client, json, sys, time
seconds = []
for number in range(int(sys.argv[2]) + 1):
    begun = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", 8642, timeout=90)
    headers = {"Authorization": "Bearer " + sys.argv[1], "X-Hermes-Session-Id": sys.argv[3]}
    body = {"model": "agent", "messages": [{"role": "user", "content": f"hello {number}"}]}
    connection.request("POST", "/v1/chat/completions", body=json.dumps(body), headers=headers)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, answer.status
    seconds.append(time.perf_counter() - begun)
print(json.dumps(seconds[1:]))
"""
"""The first turn of a gateway warms it and is left out."""

_WRITES = """
import json, os, sqlite3, sys, tempfile, time
with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
    database = sqlite3.connect(os.path.join(folder, "bench.db"), isolation_level=None)
    assert database.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, text TEXT)")
    count, begun, used = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begun < float(sys.argv[2]):
        database.execute("INSERT INTO messages (text) VALUES (?)", ("x" * 500,))
        count += 1
    took, used = time.perf_counter() - begun, time.process_time() - used
    database.close()
print(json.dumps([sqlite3.sqlite_version, count / took, 1e6 * used / count]))
"""
"""As 0.19.0 writes ``state.db``: a write-ahead log, ``synchronous=NORMAL``, a transaction for each row."""


@dataclass
class Measured:
    """The figures of one SQLite, over all rounds.

    Attributes:
        version: As the agent's own interpreter reports it.
        starts: Seconds from the unit's start to the first good answer of ``/health``.
        turns: Seconds of each turn.
        writes: Transactions a second.
        costs: Microseconds of processor time for each of them.
    """

    version: str = ""
    starts: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)


async def measure(board: Board) -> None:
    """Build the image and its release without SQLite, give one agent each of them in turns, and add the figures."""
    async with agents_world() as world:
        image = await make(Workshop(world))
        locks = {_DEBIANS: _without_sqlite(image), _OURS: image.release}
        async with living_agent(world, image.image_id) as agent:
            bundle = HandedOut(ReleaseId(locks[_DEBIANS].id), image.workshop.releases)
            await ReleaseClient(world.channel).fetch(agent.machine_id, bundle, python=base_python())
            figures = await _in_turns(agent, locks)
    _add(board, figures, locks[_OURS].agent_version)


async def _in_turns(agent: Agent, locks: Mapping[str, Lock]) -> Mapping[str, Measured]:
    figures = {name: Measured() for name in locks}
    for number in range(ROUNDS):
        for name, lock in locks.items():
            report(f"==> {name} SQLite, round {number + 1} of {ROUNDS}")
            await _switch(agent, lock)
            await _take(agent, figures[name], f"round-{number}-{lock.id[-6:]}")
    return figures


async def _switch(agent: Agent, lock: Lock) -> None:
    for words in (f"release activate {lock.id} --no-trial --confirm-within 300", f"release confirm {lock.id}"):
        await agent.run(f"{PROGRAM} {words}", timeout_s=300)


async def _take(agent: Agent, measured: Measured, session: str) -> None:
    measured.starts.append(float(await _script(agent, "/usr/bin/python3", _START)))
    turns = await _script(agent, "/usr/bin/python3", _TURNS, agent.api_server_key, str(TURNS), session)
    measured.turns += json.loads(turns)
    slot = "runuser -u hermes -- /opt/hermes/current/venv/bin/python"
    written = json.loads(await _script(agent, slot, _WRITES, "/var/lib/hermes", f"{WRITES_S:g}"))
    measured.version = str(written[0])
    measured.writes.append(float(written[1]))
    measured.costs.append(float(written[2]))
    turn = 1e3 * statistics.median(measured.turns[-TURNS:])
    report(
        f"    {measured.starts[-1]:.1f} s to healthy, a turn {turn:.0f} ms, {measured.writes[-1]:.0f} writes a second"
    )


async def _script(agent: Agent, python: str, script: str, *words: str) -> str:
    arguments = " ".join(map(shlex.quote, (script, *words)))
    return (await agent.run(f"{python} -c {arguments}", timeout_s=300)).strip()


def _without_sqlite(image: Made) -> Lock:
    """The image's release without its SQLite: its agent uses the distribution's. Put into the same store."""
    site = tuple(blob for blob in image.release.site if not is_of_sqlite(blob.name))
    lock = replace(image.release, site=site)
    image.workshop.releases.put(lock, who="bench", note="", at=datetime.now(UTC))
    return lock


def _add(board: Board, figures: Mapping[str, Measured], agent: str) -> None:
    ours, theirs = figures[_OURS], figures[_DEBIANS]
    kinds: Sequence[tuple[str, str, str, Any]] = (
        ("a turn", "ms", "turns", lambda values: 1e3 * statistics.median(values)),
        ("single writes to a database of its own", "a second", "writes", statistics.median),
        ("  processor time of each", "µs", "costs", statistics.median),
        ("start to healthy", "s", "starts", statistics.median),
    )
    for title, unit, name, middle in kinds:
        mine, other = middle(getattr(ours, name)), middle(getattr(theirs, name))
        board.add(
            f"hermes-agent {agent}, SQLite {ours.version}: {title}",
            f"p50 {mine:.4g} {unit} of {len(getattr(ours, name))}",
            against=f"Debian's {theirs.version}: p50 {other:.4g} {unit}; {mine / other:.2f}x",
        )
