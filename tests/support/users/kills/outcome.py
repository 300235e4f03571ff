"""Table of a run: for each part, its kills, and the end of every turn and purchase that was under way at one."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.support.users.kills.chatting import Message
from tests.support.users.kills.run import Kill, KillRun
from tests.support.users.kills.subscribing import Purchase

_COLUMNS = (
    *("part", "kills", "turns under way", "answered", "failed and reported", "lost", "twice", "gap or repeat"),
    *("slowest s", "purchases under way", "done"),
)

_MOST_WRONG = 20


def show(run: KillRun) -> None:
    """Print it."""
    table = Table(*_COLUMNS, title=f"parts killed under load, seed {run.seed}")
    names = sorted({kill.part.partition(" ")[0] for kill in run.kills})
    for name in names:
        table.add_row(name, *_row(run, [kill for kill in run.kills if kill.part.startswith(name)]))
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
    console.print(f"repeated: {dict(retries)}; ended by themselves: {ends}")
    wrong = [f"{message.key}: {'; '.join(message.wrong)}" for message in run.messages if message.wrong]
    wrong += [f"{purchase.key}: {'; '.join(purchase.wrong)}" for purchase in run.purchases if purchase.wrong]
    console.print("\n".join(wrong[:_MOST_WRONG]))


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
    """Whether a part died between its begin and its end."""
    end = each.ended or float("inf")
    return any(each.began <= kill.at <= end for kill in kills)
