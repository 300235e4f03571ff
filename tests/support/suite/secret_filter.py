"""What detect-secrets passes over in tests, which are full of passwords that open nothing; see .secrets.baseline."""

from typing import Any


def is_made_up(filename: str, secret: str, plugin: Any) -> bool:  # noqa: ANN401, ARG001 - detect-secrets asks by these
    """Whether only a name, as ``password = ``, speaks for a secret, and the file is a test's; keys and tokens count."""
    return filename.startswith("tests/") and plugin.secret_type == "Secret Keyword"  # noqa: S105 - a kind's name
