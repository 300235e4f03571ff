"""Generated parts of documents: the wings as a table, the pipelines as a flowchart. ``make reference`` writes them.

A document marks the place: ``<!-- generated: NAME -->`` before, ``<!-- end -->`` after.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.pipelines.workflows import WORD, programs, workflow

ROOT = Path(__file__).parents[3]

_WINGS_OF_ONE = ("cli", "app", "localcloud", "model")
"""Wings that are one package: their parts are no packages of their own."""

_STAGES: Mapping[str, Sequence[str]] = {
    "pull request": ("check:lint", "preview:preview"),
    "merged to main": ("apply:staging", "baseline:baseline", "apply:stacks", "apply:save"),
    "a second operator": (),
    "by hand, reviewed": ("apply:apply",),
    "by hand": ("release:build", "rollout:rollout"),
    "each night, each week": ("drift:drift", "drills:drill", "upstream:check"),
}
"""Jobs by the event that starts them."""

_WAY_TO_PRODUCTION = ("preview", "staging", "stacks", "save", "person", "apply")
_PERSON = (
    "signs with their own key, never their own preview",
    [
        "gh run download, and reads it",
        "hermesops approval sign preview.json --save approval",
        "gh workflow run apply.yml",
    ],
)


def wings_table() -> str:
    """A Markdown table with a row for each wing, the highest first."""
    rows = (f"| `{_place(wing)}` | {', '.join(packages) or 'one package'} |" for wing, packages in wings().items())
    return "\n".join(["| wing | packages |", "| --- | --- |", *rows])


def wings() -> dict[str, list[str]]:
    """Packages and modules by wing, the highest wing first; a wing that is one package or module has none."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [name for layer in contracts[0]["layers"] for name in layer.split(" | ")]
    names = [name for name in layers if name != "__main__" and _is_code(name)]
    return {name: [] if name in _WINGS_OF_ONE else _packages(name) for name in names}


def _packages(wing: str) -> list[str]:
    folder = ROOT / "hermesops" / wing
    entries = [path.name.removesuffix(".py") for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(name for name in entries if not name.startswith("_") and _is_code(f"{wing}/{name}"))


def _place(wing: str) -> str:
    return f"hermesops/{wing}" if (ROOT / "hermesops" / wing).is_dir() else f"hermesops/{wing}.py"


def _is_code(name: str) -> bool:
    place = ROOT / "hermesops" / name
    return (place / "__init__.py").exists() or place.with_suffix(".py").exists()


def pipelines() -> str:
    """A Mermaid flowchart of the workflows' jobs and their commands."""
    lines = ["```mermaid", "flowchart TB"]
    for number, (event, jobs) in enumerate(_STAGES.items()):
        lines.append(f'  subgraph stage{number}["{event}"]')
        lines += [_node(job.rpartition(":")[2], *_content(job)) for job in jobs] or [_node("person", *_PERSON)]
        lines.append("  end")
    return "\n".join([*lines, f"  {' --> '.join(_WAY_TO_PRODUCTION)}", "```"])


def _node(name: str, title: str, commands: Sequence[str]) -> str:
    text = "<br/>".join([title, *commands]).replace('"', "#quot;")
    return f'    {name}["{text}"]'


def _content(name: str) -> tuple[str, list[str]]:
    file, _, job = name.partition(":")
    pipeline = workflow(file)
    environment = str(pipeline.jobs[job].get("environment", ""))
    where = environment.replace("${{ matrix.target }}", "staging, production").replace(
        "${{ inputs.target }}", "as asked"
    )
    title = f"{file}.yml" if len(pipeline.jobs) == 1 else f"{file}.yml: {job}"
    return f"{title}{f' ({where})' if where else ''}", list(_commands(pipeline.steps(job)))


def _commands(steps: Iterator[Mapping[str, str]]) -> Iterator[str]:
    for step in steps:
        for words in programs(step.get("run", "")):
            if words[:2] != ["make", "pipeline-setup"] and "env check" not in " ".join(words):
                yield " ".join(_shown(words))


def _shown(words: Sequence[str]) -> list[str]:
    kept = list(words)
    if kept[1:3] == ["--env", WORD]:
        del kept[1:3]
    return ["…" if word == WORD else word.replace(f"{WORD}/", "…/") for word in kept]


GENERATED: Mapping[str, tuple[str, Callable[[], str]]] = {
    "wings": ("runbooks/architecture.md", wings_table),
    "pipelines": ("runbooks/pipelines.md", pipelines),
}
"""Document and text of each generated part, by the name in its mark."""


def renewed(name: str) -> str:
    """The document of a generated part, with that part as it is now."""
    document, text = GENERATED[name]
    mark = re.compile(rf"(<!-- generated: {name} -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
    content, count = mark.subn(lambda place: place[1] + text() + place[2], (ROOT / document).read_text())
    assert count == 1, f"{document} has {count} places for {name}"
    return content


def mermaid(document: str) -> list[str]:
    """The Mermaid diagrams of a document."""
    return re.findall(r"```mermaid\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


if __name__ == "__main__":
    for name, (document, _) in GENERATED.items():
        (ROOT / document).write_text(renewed(name))
