"""Forms that pages send: their fields, each once, and the reason."""

from collections.abc import Mapping
from urllib.parse import parse_qs

from hermesops.console.actions.action import LONGEST, Action
from hermesops.console.parts import Console
from hermesops.errors import Hint, UsageError

_FIELDS = 20
"""Fields of a form at most."""


def form_of(body: bytes) -> Mapping[str, str]:
    """The fields of a form.

    Raises:
        UsageError: The body is none, or has too many.
    """
    try:
        fields = parse_qs(body.decode(), max_num_fields=_FIELDS)
    except ValueError as error:  # UnicodeDecodeError is one
        raise UsageError("this is no form of the console") from error
    return {name: values[0] for name, values in fields.items()}


def reason_of(form: Mapping[str, str]) -> str:
    """The reason in a form; may be empty.

    Raises:
        UsageError: It is too long, or has invisible characters.
    """
    reason = " ".join(form.get("reason", "").split())
    if len(reason) > LONGEST or not reason.isprintable():
        raise UsageError(f"a reason has at most {LONGEST} characters, all of them visible", field="reason")
    return reason


def require_reason(console: Console, action: Action, reason: str) -> None:
    """Go on only with a reason, where the action's command takes one; in the served console each action does.

    Raises:
        UsageError: There is no reason.
    """
    if (action.takes_reason or console.is_served) and not reason:
        hint = Hint((*action.words, "…", "--reason", "WHY")) if action.takes_reason else ""
        raise UsageError("missing: say why", hint=hint, field="reason")
