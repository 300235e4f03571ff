"""Simulated machines that an attacker controls, either the agent or root: a test writes their answers.

A file on the machine says it, as JSON, for as long as it is there; nothing else makes one. The agent's is in its home,
so it goes where the agent's state goes. To callers through the vendor's proxy and to hermes-node the agent may answer
differently: each has a port of this computer's loopback, where the test serves those answers.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hermesops.localcloud.drivers.sim.disk import HOME, Disk
from hermesops.programs.node.instance.agent import api
from hermesops.programs.node.instance.agent.api import Answer

AGENT = f"{HOME}/hooks/hostile/simulated.json"
"""``{"proxy": port, "node": port}``; either may be missing, and the agent answers those as it should."""

ROOT = "/etc/hostile.json"
"""``{"words": ["status"], "code": 0, "out": "text", "err": "", "times": 1, "seconds": 0}``: what hermes-node does
instead, where its first words are these; all are meant where there are none. ``times`` repeats the text."""

_LIMIT_S = 2.0
"""Seconds after which an answer counts as one without end."""


def agent_port(disk: Disk, caller: str) -> int:
    """The port that answers for the agent to ``proxy`` or to ``node``; 0 where the agent answers by itself."""
    port = _read(disk, AGENT).get(caller, 0)
    return port if isinstance(port, int) else 0


def lying_node(disk: Disk, words: Sequence[str]) -> tuple[int, str, str, float] | None:
    """Exit code, outputs and seconds of a hostile hermes-node's answer to these words; ``None`` if it is honest."""
    answer = _read(disk, ROOT)
    lies_about = answer.get("words", [])
    if not answer or (lies_about and list(words[: len(lies_about)]) != lies_about):
        return None
    text = str(answer.get("out", "")) * int(answer.get("times", 1))
    return int(answer.get("code", 0)), text, str(answer.get("err", "")), float(answer.get("seconds", 0))


class AgentAnswers:
    """The answers of hostile agents to hermes-node.

    All simulated machines share one thread, so nobody waits for an answer in the midst of a command: each port is asked
    once, the way hermes-node asks, and its answer stands for all later ones.
    """

    def __init__(self) -> None:
        self._answers: dict[int, tuple[Answer, float]] = {}

    async def ask(self, port: int) -> None:
        """Ask at a port, unless it was asked before."""
        if port in self._answers:
            return
        began = time.monotonic()
        answer = await asyncio.to_thread(api.ask, port, "/health/detailed", key="none", timeout_s=_LIMIT_S)
        self._answers[port] = (answer, time.monotonic() - began)

    def answer(self, port: int, timeout_s: float) -> tuple[Answer, float]:
        """The answer of a port within a time, and how many seconds it takes."""
        if port not in self._answers:
            return Answer(0, "nobody asked"), 0.0
        answer, seconds = self._answers[port]
        if seconds >= min(_LIMIT_S, timeout_s):
            return Answer(0, f"no whole answer within {timeout_s:g} s"), timeout_s
        return answer, seconds


def _read(disk: Disk, path: str) -> Mapping[str, Any]:
    entry = disk.entry(path)
    answer = json.loads(entry.data) if entry is not None else {}
    return answer if isinstance(answer, dict) else {}
