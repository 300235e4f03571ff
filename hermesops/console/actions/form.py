"""The values of a request in its row: JSON that a process wrote which browsers feed. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from hermesops.errors import UsageError
from hermesops.model.access.operator_request import LONGEST_FORM


def form_of_row(text: str) -> Mapping[str, str]:
    """The values in a row.

    Raises:
        UsageError: They are too long, or no object of texts.
    """
    problem = UsageError("these are no values of a page")
    if len(text) > LONGEST_FORM:
        raise problem
    try:
        form: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise problem from error
    if not isinstance(form, dict) or not all(isinstance(value, str) for value in form.values()):
        raise problem
    return form
