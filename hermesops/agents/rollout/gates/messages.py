"""The messages gate: do agents on the release answer what their users write to them in messengers? Pure.

An agent is mute if its socket took messages and it answered none of them, though it had time. Agents count and not
messages: one user may write a hundred. Agents that were not touched have long turns and slow evenings as well, so what
counts is that mute ones are more frequent among changed agents than chance explains: Fisher's exact test, one-sided.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb

from hermesops.agents.rollout.ports import MessageComparison
from hermesops.base.narration import counted
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.exchange import Exchange
from hermesops.model.rollout.records import GateResult
from hermesops.model.rollout.spec import MessageGate


@dataclass(frozen=True)
class MessageGateAnswer:
    """The verdict, with its figures.

    Attributes:
        agents: Changed agents that had messages; ``mute`` of them answered none.
        control_agents: Untouched ones; ``control_mute`` of them answered none.
        chance: Probability of so many mute ones if the release changes nothing; 1 where that is unknown.
    """

    result: GateResult
    why: str
    agents: int = 0
    mute: int = 0
    control_agents: int = 0
    control_mute: int = 0
    chance: float = 1.0


def weigh_messages(compared: MessageComparison | None, gate: MessageGate) -> MessageGateAnswer:
    """Judge whether changed agents answer.

    Args:
        compared: ``None`` where nothing was observed.
    """
    if not gate.alpha:
        return MessageGateAnswer(GateResult.PASS, "switched off")
    canaries = _with_messages(compared.canaries) if compared else []
    controls = _with_messages(compared.controls) if compared else []
    if not canaries:
        return MessageGateAnswer(GateResult.NOT_EXERCISED, "no changed agent had a message yet")
    mute, control_mute = _mute(canaries), _mute(controls)
    chance = chance_of(mute, len(canaries), control_mute, len(controls)) if controls else 1.0
    result, why = _verdict(gate, chance, (mute, len(canaries)), (control_mute, len(controls)))
    return MessageGateAnswer(result, why, len(canaries), mute, len(controls), control_mute, chance)


def _verdict(
    gate: MessageGate, chance: float, canaries: tuple[int, int], controls: tuple[int, int]
) -> tuple[GateResult, str]:
    mute, agents = canaries
    words = f"{mute} of {counted(agents, 'changed agent')} with messages answered none"
    if agents < gate.floor:
        return GateResult.INCONCLUSIVE, f"{words} (needs {gate.floor})"
    if not controls[1]:
        return GateResult.INCONCLUSIVE, f"{words}; no unchanged agent had messages"
    words += f", {controls[0]} of {controls[1]} unchanged"
    if mute < gate.floor:
        return GateResult.PASS, words
    if is_harm(gate, chance, mute):
        return GateResult.FAIL, words
    return GateResult.INCONCLUSIVE, f"no verdict yet: {words}; it may be chance"


def is_harm(gate: MessageGate, chance: float, mute: int) -> bool:
    """Whether so many mute agents are the release's doing."""
    return mute >= gate.floor and chance < gate.alpha


def chance_of(mute: int, agents: int, control_mute: int, control_agents: int) -> float:
    """Probability that so many of all mute agents, or more, are changed ones, if any agent is as likely to be mute.

    Source: Fisher's exact test; the hypergeometric distribution.
    """
    every, all_mute = agents + control_agents, mute + control_mute
    most = min(agents, all_mute)
    ways = sum(comb(all_mute, each) * comb(every - all_mute, agents - each) for each in range(mute, most + 1))
    return ways / comb(every, agents)


def _with_messages(exchanges: Mapping[InstanceId, Exchange]) -> list[Exchange]:
    return [exchange for exchange in exchanges.values() if exchange.due]


def _mute(exchanges: list[Exchange]) -> int:
    return sum(not exchange.answered for exchange in exchanges)
