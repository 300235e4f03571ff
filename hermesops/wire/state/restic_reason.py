"""Why restic ended, from what it wrote on stderr. It names the repository last, and the reason before."""

KEY_REFUSED = "the object store refuses the key to the repository"
"""Begins the reason where another key would help."""

_LONGEST = 300
_REFUSALS = ("access denied", "accessdenied", "invalidaccesskeyid", "signaturedoesnotmatch", "in our records")


def reason_in(said: str) -> str:
    """The reason in one bounded line; words for none where it wrote nothing."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    refusals = [line for line in lines if any(word in line.lower() for word in _REFUSALS)]
    fatal = [line for line in lines if line.startswith("Fatal:")]
    told = next(iter([*refusals, *fatal, *reversed(lines)]), "ended without a message")
    told = "".join(letter if letter.isprintable() else "?" for letter in told)[:_LONGEST]
    return f"{KEY_REFUSED}: {told}" if refusals else told
