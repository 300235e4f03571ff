"""The body of every error that a server of hermesops answers, to machines and to services alike."""

from collections.abc import Mapping


def error_body(code: str, message: str) -> Mapping[str, str]:
    """The JSON object of an error.

    Args:
        code: For programs; stable.
        message: For people, in field ``error``, which machines read; no text of others, no secret.
    """
    return {"code": code, "error": message}
