"""Table of a run: for each part, its deaths and hangs, and the ends of turns and purchases that were under way then."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.support.users.kills.chatting import Message
from tests.support.users.kills.run import Kill, KillRun
from tests.support.users.kills.streams import by_socket
from tests.support.users.kills.subscribing import Purchase

_COLUMNS = (
    *("part", "points", "turns under way", "answered", "failed and reported", "lost", "twice", "gap or repeat"),
    *("slowest s", "purchases under way", "done"),
)

_MOST_WRONG = 20


def show(run: KillRun) -> None:
    """Print it."""
    table = Table(*_COLUMNS, title=f"parts killed and hung under load, seed {run.seed}")
    for kind in sorted({kill.kind for kill in run.kills}):
        table.add_row(kind, *_row(run, [kill for kill in run.kills if kill.kind == kind]))
    table.add_section()
    table.add_row("any", *_row(run, run.kills))
    table.add_row("none", *_figures([each for each in run.messages if not _is_hit(each, run.kills)], run, ()))
    console = Console(width=150)
    console.print(table)
    askings = [*(user.asking for user in run.chatting), *(user.asking for user in run.subscribing)]
    retries = sum((asking.retries for asking in askings), Counter[str]())
    resumes, ends = sum(m.resumes for m in run.messages), {each.name: each.ends for each in run.world.programs}
    bought = sum(bool(purchase.ended) for purchase in run.purchases)
    console.print(f"{len(run.messages)} messages, {resumes} resumes; {bought} of {len(run.purchases)} plans ended")
    socketed = [message for user in run.chatting if user.way is by_socket for message in user.messages]
    console.print(f"{len(socketed)} messages by WebSocket; {_approvals(run)}")
    console.print(f"failures reported: {dict(Counter(m.detail for m in run.messages if m.end == 'failed'))}")
    console.print(f"repeated: {dict(retries)}; ended by themselves: {ends}")
    wrong = [f"{message.key}: {'; '.join(message.wrong)}" for message in run.messages if message.wrong]
    wrong += [f"{purchase.key}: {'; '.join(purchase.wrong)}" for purchase in run.purchases if purchase.wrong]
    console.print("\n".join(wrong[:_MOST_WRONG]))


def _approvals(run: KillRun) -> str:
    """The ends of requests for approval at the agents, and of the users' answers."""
    ends = Counter(outcome for chatter in run.world.chatters for outcome in chatter.agent.outcomes.values())
    decisions = [decision for m in run.messages for decision in m.decisions.by_number.values()]
    refusals = Counter(decision.refusal for decision in decisions if decision.refusal)
    sent = sum(decision.is_sent for decision in decisions)
    return (
        f"{ends.total()} requests for approval, {len(decisions)} shown, {sent} answered by users; "
        f"at agents {dict(ends)}; answers refused {dict(refusals)}"
    )


def _row(run: KillRun, kills: Sequence[Kill]) -> Sequence[str]:
    return [str(len(kills)), *_figures([each for each in run.messages if _is_hit(each, kills)], run, kills)[1:]]


def _figures(messages: Sequence[Message], run: KillRun, kills: Sequence[Kill]) -> Sequence[str]:
    bought = [purchase for purchase in run.purchases if _is_hit(purchase, kills)]
    counts = {text: count for chatter in run.world.chatters for text, count in chatter.agent.counts().items()}
    ended = [message for message in messages if message.end]
    figures = (
        len(kills),
        len(messages),
        sum(message.end == "done" for message in messages),
        sum(message.end in {"failed", "stopped"} for message in messages),
        len(messages) - len(ended),
        sum(counts.get(message.text, 0) > 1 for message in messages),
        sum(bool(message.wrong) and bool(message.end) for message in messages),
        max((round(message.ended - message.began) for message in ended), default=0),
        len(bought),
        sum(bool(purchase.ended) and not purchase.wrong for purchase in bought),
    )
    return [str(figure) for figure in figures]


def _is_hit(each: Message | Purchase, kills: Sequence[Kill]) -> bool:
    """Whether a part died, or hung, between its begin and its end."""
    end = each.ended or float("inf")
    return any(each.began <= kill.at + kill.lasted_s and kill.at <= end for kill in kills)
