"""Steps of the checks of all bots."""

from collections.abc import Mapping

from hermesops.access.secrets.catalog import SecretSpec
from hermesops.access.secrets.store import Secrets
from hermesops.errors import HermesError, Hint, RefusedError, UsageError
from hermesops.model.check import Check, Verdict


def failed(name: str, error: HermesError) -> Check:
    """The check of a step that raised: failed where a messenger refuses, unknown where it does not answer."""
    verdict = Verdict.FAILED if isinstance(error, RefusedError) else Verdict.UNKNOWN
    return Check(name, verdict, error.message, error.hint)


def kept(secrets: Secrets, needs: Mapping[str, SecretSpec]) -> list[Check]:
    """Whether each secret is there, by the name of its check."""
    return [_kept(name, spec.name, is_there=secrets.held(spec).is_there) for name, spec in needs.items()]


def webhook_at(url: str, messenger: str) -> str:
    """The address at which a messenger reaches the users' API.

    Raises:
        UsageError: It is not known.
    """
    if url:
        return url
    hint = Hint(("settings", "set", "web.origin", "https://HOST"))
    raise UsageError(f"missing web.origin, where {messenger} reaches the users' API", hint=hint)


def _kept(name: str, secret: str, *, is_there: bool) -> Check:
    if is_there:
        return Check(name, Verdict.OK, "kept")
    return Check(name, Verdict.FAILED, "missing", Hint(("secrets", "set", secret, "--from", "FILE")))
