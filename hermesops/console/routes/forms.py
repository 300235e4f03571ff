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
        raise UsageError("the request is not a form of the console") from error
    return {name: values[0] for name, values in fields.items()}


def reason_in(form: Mapping[str, str], console: Console, action: Action, *command: str) -> str:
    """The reason for an action in a form; empty where its page asks for none, as its command takes none.

    The served console asks for one for each action.

    Args:
        command: The words of the action without a reason, for the hint.

    Raises:
        UsageError: It is missing, too long, or has invisible characters.
    """
    if not (action.takes_reason or console.is_served):
        return ""
    reason = " ".join(form.get("reason", "").split())
    if len(reason) > LONGEST or not reason.isprintable():
        raise UsageError(f"a reason must have at most {LONGEST} characters, all visible", field="reason")
    if not reason:
        hint = Hint((*command, "--reason", "WHY")) if action.takes_reason else ""
        raise UsageError("missing: say why", hint=hint, field="reason")
    return reason
