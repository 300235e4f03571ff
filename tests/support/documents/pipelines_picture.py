"""Draws how code gets from a pull request to production, from the workflows' own jobs and commands."""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from tests.support.pipelines.workflows import WORD, Workflow, programs, workflow

_WIDTH, _LABEL, _BOX, _GAP, _PAD, _LINE = 1080, 180, 434, 16, 16, 17
_MOST = 60  # characters of a command that have room in a box
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif">
<title>Pipelines of hermesops: from a pull request to production, and what runs by the clock</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0,0 L8,4 L0,8 z" fill="#5b6b82"/></marker></defs>
<rect width="100%" height="100%" fill="#ffffff"/>"""
_BOX_OF = """<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="4" fill="{fill}" stroke="#5b6b82"/>
<text x="{text}" y="{title_y}" font-size="13" font-weight="bold" fill="#1c2733">{title}</text>"""
_COMMAND = '<text x="{x}" y="{y}" font-size="11" font-family="monospace" fill="#1c2733">{words}</text>'
_EVENT = '<text x="{x}" y="{y}" font-size="13" fill="#1c2733">{words}</text>'
_ARROW = '<path d="M{x},{begin} L{x},{end}" stroke="#5b6b82" stroke-width="1.5" marker-end="url(#tip)"/>'

_STAGES: Sequence[tuple[str, Sequence[str]]] = (
    ("pull request", ("check:lint", "preview:preview")),
    ("merged to main", ("apply:staging", "baseline:baseline")),
    ("", ("apply:stacks", "apply:save")),
    ("a second operator", ()),
    ("by hand, reviewed", ("apply:apply",)),
    ("by hand", ("release:build", "rollout:rollout")),
    ("each night, each week", ("drift:drift", "drills:drill")),
)
"""What starts jobs, and which, from top to bottom; the stages up to production follow from each other."""

_LAST_IN_ORDER = 4
_PERSON = (
    "signs with their own key, never their own preview",
    [
        "gh run download, and reads it",
        "hermesops approval sign preview.json --save approval",
        "gh workflow run apply.yml",
    ],
)


def pipelines() -> str:
    """The picture as SVG."""
    lines, y = list[str](), _PAD
    for number, (event, jobs) in enumerate(_STAGES):
        boxes = [_content(name) for name in jobs] or [_PERSON]
        high = 2 * _GAP + _LINE * (1 + max(len(commands) for _, commands in boxes))
        lines.append(_EVENT.format(x=_PAD, y=y + _GAP + 6, words=escape(event)))
        for column, (title, commands) in enumerate(boxes):
            lines += _box(title, commands, column, y, high, fill="#eef2f7" if jobs else "#fdf3d8")
        if number < _LAST_IN_ORDER:
            lines.append(_ARROW.format(x=_LABEL + _BOX // 2, begin=y + high, end=y + high + _GAP - 2))
        y += high + _GAP
    return "\n".join([_HEAD.format(wide=_WIDTH, high=y), *lines, "</svg>\n"])


def _box(title: str, commands: Sequence[str], column: int, y: int, high: int, *, fill: str) -> Iterator[str]:
    x = _LABEL + column * (_BOX + _GAP)
    yield _BOX_OF.format(
        x=x, y=y, wide=_BOX, high=high, fill=fill, text=x + 10, title_y=y + _GAP + 6, title=escape(title)
    )
    for number, words in enumerate(commands, start=1):
        yield _COMMAND.format(x=x + 10, y=y + _GAP + 6 + number * _LINE, words=escape(_fitted(words)))


def _fitted(command: str) -> str:
    """A command that fits its box: whole words of it."""
    if len(command) <= _MOST:
        return command
    return f"{command[:_MOST].rpartition(' ')[0].removesuffix(' …')} …"


def _content(name: str) -> tuple[str, list[str]]:
    file, _, job = name.partition(":")
    found: Workflow = workflow(file)
    environment = str(found.jobs[job].get("environment", ""))
    where = environment.replace("${{ matrix.target }}", "staging, production").replace(
        "${{ inputs.target }}", "as asked"
    )
    commands = [
        " ".join(_shown(words))
        for step in found.steps(job)
        for words in programs(step.get("run", ""))
        if words[:2] != ["make", "pipeline-setup"] and "env check" not in " ".join(words)
    ]
    title = f"{file}.yml" if len(found.jobs) == 1 else f"{file}.yml: {job}"
    return f"{title}{f' ({where})' if where else ''}", commands


def _shown(words: Sequence[str]) -> list[str]:
    kept = list(words)
    if kept[1:3] == ["--env", WORD]:
        del kept[1:3]
    return ["…" if word == WORD else word for word in kept]
