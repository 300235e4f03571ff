"""Shapes of errors, as every face renders them; the hint stays data."""

from hermesops.errors import HermesError


def failure(error: HermesError) -> dict[str, object]:
    """An error with its hint and exit code; ``field`` names the parameter at fault, where one is."""
    return {
        "error": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "exit_code": error.exit_code,
        **({"field": error.field} if error.field else {}),
    }
