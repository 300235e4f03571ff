"""The command reference, ``runbooks/reference/``: one page per command of the first level, written from ``--help``.

``make reference`` writes it. Nothing in it depends on this computer: help comes from the parser, not from a terminal.
"""

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typer.main import get_group

from hermesops.base import assets
from hermesops.cli import root
from hermesops.cli.commands import SECTIONS, SUMMARIES
from hermesops.cli.groups import lazy as lazy_groups

INDEX = "index.md"
WRITTEN_BY = "make reference"
_HEAD = f"<!-- Written by `{WRITTEN_BY}` from the commands' help: change the help, not this page. -->"
_EVERYWHERE = frozenset({"--help", "--output", "--json", "--quiet", "--sort", "--filter"})
"""Options of every command, or every list; the index explains them, so that no page repeats them."""

_OPTIONS_OF_ALL = """| option | |
| --- | --- |
| `-o json`, `--json` | Print the result as JSON. |
| `-q`, `--quiet` | No narration on stderr, and no colours. |
| `-h`, `--help` | Show the help. |"""

_OPTIONS_OF_LISTS = """| option | |
| --- | --- |
| `-o wide` | All columns, none of them cut. |
| `-o name` | Only the names of the rows, one a line. |
| `--sort COLUMN` | Sort by a column, also one of `-o wide`; `-COLUMN`: the greatest first. |
| `--filter COLUMN=TEXT` | Only rows with this text in the column, or with `!=` without it; `*` is any text. |"""


def folder() -> Path:
    """Where the pages are."""
    return assets.folder("runbooks") / "reference"


def pages() -> dict[str, str]:
    """Each page's text by its file name."""
    pages = {f"{name}.md": _page(name) for name in SUMMARIES}
    return {INDEX: _index(), **pages}


def differences(where: Path) -> list[str]:
    """What is wrong with the pages in a folder: one line per page that is missing, old or of no command."""
    wanted, present = pages(), {path.name: path.read_text(encoding="utf-8") for path in where.glob("*.md")}
    return [
        *(f"{name} is missing" for name in wanted if name not in present),
        *(f"{name} is not what --help says" for name in wanted if present.get(name, wanted[name]) != wanted[name]),
        *(f"{name} is of no command" for name in sorted(present) if name not in wanted),
    ]


def write(where: Path) -> None:
    """Make the pages of a folder those of the present commands."""
    where.mkdir(exist_ok=True)
    wanted = pages()
    for path in where.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (where / name).write_text(text, encoding="utf-8")


def _index() -> str:
    command = get_group(root.app)
    context = _context(command, "hermesops")
    lines = [
        "# Command reference",
        _HEAD,
        "`hermesops [OPTIONS] COMMAND …`",
        "Options before the command:",
        _options(command, context),
        "Options of every command:",
        _OPTIONS_OF_ALL,
        f"Options of lists, that is of {', '.join(_lists())}:",
        _OPTIONS_OF_LISTS,
        "Exit codes are explained in [failures](../failures.md).",
        *(piece for section, names in SECTIONS.items() for piece in (f"## {section}", _pages(names))),
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


def _lists() -> Iterator[str]:
    for name in SUMMARIES:
        for path, command in _commands(lazy_groups.load(name), name):
            if any("--sort" in parameter.opts for parameter in command.params):
                yield f"`{path}`"


def _pages(names: Iterable[str]) -> str:
    rows = [f"| [{name}]({name}.md) | {_cell(SUMMARIES[name])} |" for name in names]
    return "\n".join(["| page | what it is about |", "| --- | --- |", *rows])


def _page(name: str) -> str:
    sections = [f"# {name}", _HEAD]
    commands = list(_commands(lazy_groups.load(name), f"hermesops {name}"))
    is_group = len(commands) > 1 or commands[0][0] != f"hermesops {name}"
    if is_group:
        sections.append(SUMMARIES[name])
    for path, command in commands:
        context = _context(command, path)
        if is_group:
            sections.append(f"## {path.removeprefix('hermesops ')}")
        sections += [f"`{path} {' '.join(command.collect_usage_pieces(context))}`", _prose(command)]
        sections += [_arguments(command, context), _options(command, context)]
    return "\n\n".join(section for section in sections if section) + "\n"


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Typer's Click is private to it
    """Each command that can be run, with the words by which it is called."""
    nested = getattr(command, "commands", None)
    if nested is None:
        yield path, command
        return
    if command.invoke_without_command:
        yield path, command
    for name, child in nested.items():
        if not child.hidden:
            yield from _commands(child, f"{path} {name}")


def _prose(command: Any) -> str:  # noqa: ANN401 - as above
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(_text(" ".join(paragraph.split())) for paragraph in paragraphs)


def _arguments(command: Any, context: Any) -> str:  # noqa: ANN401 - as above
    parameters = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    return _table("argument", parameters, context)


def _options(command: Any, context: Any) -> str:  # noqa: ANN401 - as above
    parameters = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "option" and not _EVERYWHERE.intersection(parameter.opts)
    ]
    return _table("option", parameters, context)


def _table(kind: str, parameters: list[Any], context: Any) -> str:  # noqa: ANN401 - as above
    records = [record for record in (parameter.get_help_record(context) for parameter in parameters) if record]
    if not records:
        return ""
    rows = [f"| `{name.replace('|', chr(92) + '|')}` | {_cell(text)} |" for name, text in records]
    return "\n".join([f"| {kind} | |", "| --- | --- |", *rows])


def _cell(text: str) -> str:
    return _text(" ".join(text.split())).replace("|", "\\|")


def _text(text: str) -> str:
    """Help as Markdown: what it would take for a tag or for emphasis is shown as it is."""
    return text.replace("<", "&lt;").replace("*", "\\*")


def _context(command: Any, path: str) -> Any:  # noqa: ANN401 - as above
    return command.context_class(command, info_name=path)


if __name__ == "__main__":
    write(folder())
