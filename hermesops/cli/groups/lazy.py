"""The commands of the first level, each imported when it is typed: ``--help`` and other commands do not pay for it."""

from importlib import import_module
from typing import Any

from typer.main import get_group

from hermesops.cli import interrupts
from hermesops.cli.commands import FOLDERS, LISTS, SECTIONS, SUMMARIES
from hermesops.cli.groups.noun import Group, Noun

_LONGEST = max(map(len, SUMMARIES))
"""Characters of a name, so that the summaries of all sections begin in one column."""


class Nouns(Group):
    """The root group: its commands are modules of ``commands``, by name."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - Typer's own options
        super().__init__(**options)
        names: dict[str, Any] = dict.fromkeys(SUMMARIES)
        self.commands = names  # alone: Typer lists them, and suggests one for what was mistyped

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as Typer's own
        """Run the typed command; from now on Ctrl-C lets it clean up.

        Raises:
            InterruptedByOperatorError: Ctrl-C.
        """
        interrupts.raise_it()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise interrupts.InterruptedByOperatorError from interrupt

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - Click does not type it
        """Import the module of the typed command."""
        return load(cmd_name) if cmd_name in SUMMARIES else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """Write the commands' summaries for ``--help`` without importing any."""
        for section, names in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(f"{name:<{_LONGEST}}", SUMMARIES[name]) for name in names])


def load(name: str) -> Any:  # noqa: ANN401 - as above
    """The Click command of that name."""
    module = import_module(f"hermesops.cli.commands.{name}" + (".group" if name in FOLDERS else ""))
    alone = Noun(rich_markup_mode=None)
    if hasattr(module, "app"):
        alone.add_typer(module.app, name=name, help=SUMMARIES[name])
    else:
        alone.command(name, lists=name in LISTS)(getattr(module, name))
    return get_group(alone).commands[name]
