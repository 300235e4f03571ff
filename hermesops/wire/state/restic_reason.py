"""The reason of restic's end, from its stderr: the repository is on the last line, the reason before it."""

KEY_REFUSED = "the object store refuses the key to the repository"
"""Begins the reason where another key would help."""

_LONGEST = 300
_REFUSALS = ("access denied", "accessdenied", "invalidaccesskeyid", "signaturedoesnotmatch", "in our records")


def reason_in(output: str) -> str:
    """The reason as one bounded line; a fixed text if restic wrote nothing."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    refusals = [line for line in lines if any(word in line.lower() for word in _REFUSALS)]
    fatal = [line for line in lines if line.startswith("Fatal:")]
    reason = next(iter([*refusals, *fatal, *reversed(lines)]), "ended without a message")
    reason = "".join(letter if letter.isprintable() else "?" for letter in reason)[:_LONGEST]
    return f"{KEY_REFUSED}: {reason}" if refusals else reason
