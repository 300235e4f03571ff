"""The acting operator, and the keys with valid signatures."""

import getpass
import os
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hermesops.access.identity import operators
from hermesops.access.identity.oidc import KeySet, Pipelines, keys_in
from hermesops.access.identity.signatures import Signers
from hermesops.base.files.private_file import read_secret
from hermesops.errors import RefusedError, UnavailableError
from hermesops.settings.environment import Environment

_TOKEN_URL = "ACTIONS_ID_TOKEN_REQUEST_URL"  # noqa: S105 - a variable's name
_TOKEN_BEARER = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105 - as above
"""How a job of GitHub Actions gets a token of who it is; set in jobs with ``id-token: write`` alone."""


def signers_of(env: Environment) -> Signers:
    """Return the operator's signing key, and the keys with signatures that are valid here."""
    settings = env.settings
    return Signers(settings.operator_key, settings.allowed_signers, settings.revoked_signers)


def who_acts(env: Environment) -> str:
    """The operator for the audit: as this computer names it, or proved if the environment demands that.

    Raises:
        RefusedError: Nothing is proved.
        UnavailableError: The issuer of the pipeline's tokens does not answer.
    """
    host, settings = socket.gethostname(), env.settings
    if settings.operators == "named":
        return operators.named(_user(), host)
    if settings.oidc.token_file is not None:
        token = read_secret(settings.oidc.token_file, what="pipeline's token, which oidc.token_file names,")
        return operators.by_token(_pipelines(env), token, host)
    if url := env.variables.get(_TOKEN_URL, ""):
        return operators.by_token(_pipelines(env), _issued(env, url), host)
    if settings.operator_key is None:
        raise RefusedError(
            f"environment {env.name} requires an identity proved by a key or a token",
            hint="set operator_key to an SSH key, or oidc.token_file in a pipeline; see runbooks/environments.md",
        )
    return operators.by_key(signers_of(env), host)


def _issued(env: Environment, url: str) -> str:
    from hermesops.access.identity.oidc_requests import issued_token  # noqa: PLC0415 - loads an HTTP client

    return issued_token(url, env.variables.get(_TOKEN_BEARER, ""), env.settings.oidc.audience)


def _pipelines(env: Environment) -> Pipelines:
    settings = env.settings
    subjects = [pattern.strip() for pattern in settings.oidc.subjects.split(",") if pattern.strip()]
    file = settings.oidc.keys_file
    keys: KeySet = partial(_keys_in, file) if file else partial(_published_keys, settings.oidc.issuer)
    return Pipelines(settings.oidc.issuer, settings.oidc.audience, subjects, keys)


def _published_keys(issuer: str) -> Mapping[str, Any]:
    from hermesops.access.identity.oidc_requests import published_keys  # noqa: PLC0415 - as above

    return published_keys(issuer)()


def _keys_in(file: Path) -> dict[str, Any]:
    try:
        return dict(keys_in(file.read_text()))
    except (OSError, ValueError, UnavailableError) as error:
        raise RefusedError(f"no keys of the pipelines' issuer can be read from {file}") from error


def _user() -> str:
    """The user of this process; in a container the user id may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on
        return f"uid{os.getuid()}"
