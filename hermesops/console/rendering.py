"""Renders pages: templates of this package, in which every value is data, whatever a machine wrote into it."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from hermesops.base.narration import counted
from hermesops.console.actions.served import find_served
from hermesops.console.operators.gate import PAGES as PREFIX
from hermesops.console.operators.gate import current, operator_shown
from hermesops.console.operators.roles import role_of
from hermesops.errors import Hint
from hermesops.views.agents.fleet import SIGNS, STATUS_SIGNS
from hermesops.views.timestamps import span
from hermesops.wire.foreign_text import one_line, visible

LONGEST = 200
"""Characters of a text of machines, monitoring or people in a row of a page."""

_AHEAD_S = 5.0
"""Seconds for which a clock may be ahead of ours: nearer times are now."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

_RUNBOOK = ("runbook", "run")
"""The first words of a command that leads to a runbook; its third word is the runbook's name."""


class Pages:
    """The pages of one environment.

    Args:
        environment: Its name, in the head of each page.
        named: The name that commands have to give by ``--env``; empty where that is not needed.
        is_served: Whether the console is served to several operators, with fewer pages.
    """

    def __init__(self, environment: str, named: str, *, is_served: bool = False) -> None:
        self._named = named
        self._templates = Environment(
            loader=PackageLoader("hermesops.console"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_as_data,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "advice": self._advice,
            "age": age,
            "command": self.command,
            "counted": counted,
            "is_time": is_time,
            "runbook": runbook_of,
            "runbook_user": runbook_user_of,
            "short": _short,
            "sign": _sign,
            "span": span,
        }
        self._templates.globals |= {
            "prefix": PREFIX,
            "environment": environment,
            "is_served": is_served,
            "may": may_change,
            "operator_shown": operator_shown,
        }

    def page(self, name: str, /, status: HTTPStatus = HTTPStatus.OK, **values: object) -> HTMLResponse:
        """Render a template as a response.

        Args:
            name: Of the template, without its suffix.
        """
        template = self._templates.get_template(f"{name}.html")
        return HTMLResponse(template.render(now=datetime.now(UTC), **values), status.value)

    def command(self, words: tuple[str, ...]) -> str:
        """A command as a person types it in a shell."""
        return Hint(words).text(self._named)

    def _advice(self, hint: object) -> str:
        return hint.text(self._named) if isinstance(hint, Hint) else str(hint or "")


def may_change(about: str, name: str) -> bool:
    """Whether the operator of this request has the role for an action of a kind of subject."""
    return current().role >= role_of(find_served(about, name))


def age(then: object, now: datetime) -> str:
    """The time since a timestamp of a shape, or until it, in words; empty without one."""
    if not isinstance(then, str):
        return ""
    seconds = (now - datetime.fromisoformat(then)).total_seconds()
    return f"in {span(-seconds)}" if seconds < -_AHEAD_S else span(max(0.0, seconds))


def is_time(value: object) -> bool:
    """Whether a value of a shape is a timestamp."""
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def runbook_of(hint: object) -> str:
    """The name of the runbook that a hint's first command runs; empty for any other hint."""
    parts = hint.parts if isinstance(hint, Hint) else ()
    commands = (part for part in parts if isinstance(part, tuple))
    return next((command[2] for command in commands if command[:2] == _RUNBOOK and len(command) > len(_RUNBOOK)), "")


def runbook_user_of(hint: object) -> str:
    """The user for whom a hint's first command runs a runbook; empty for any other hint."""
    parts = hint.parts if isinstance(hint, Hint) else ()
    commands = (part for part in parts if isinstance(part, tuple) and part[:2] == _RUNBOOK)
    return next((user for *_, option, user in commands if option == "--instance"), "")


def _as_data(value: object) -> object:
    """Make control and bidirectional characters of a text visible; ``None`` shows nothing."""
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _short(value: object) -> str:
    return one_line("; ".join(map(str, value)) if isinstance(value, list) else str(value or ""), longest=LONGEST)


_SIGN: Mapping[str, str] = {**{key.value: sign for key, sign in (SIGNS | STATUS_SIGNS).items()}, "alert": "!"}


def _sign(state: str) -> str:
    """The sign of a state in the grid: a shape beside its colour and its word."""
    return _SIGN.get(state, "·")
