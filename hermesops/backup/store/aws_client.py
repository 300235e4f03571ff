"""How AWS's API, or what speaks like it, is asked; and its refusals in hermesops's own classes."""

import contextlib
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from hermesops.errors import HermesError, RefusedError, UnavailableError, UsageError

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

_CONNECT_S, _READ_S, _TRIES = 5, 15, 2
_LONGEST = 300
"""Characters that are repeated of what a store says."""

_SETTINGS = "hermesops settings show: look at backup_bucket, backup_endpoint and backup_key_file"


class AbsentError(UsageError):
    """There is no such thing there."""


def client_options(*, is_local: bool) -> dict[str, Any]:
    """What every client of boto3's is made with here; to this computer's own, past every proxy."""
    from botocore.config import Config  # noqa: PLC0415 - loads for half a second

    config = Config(
        s3={"addressing_style": "path"},
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        # What serves S3 without being Amazon's often knows no newer checksum than the ones that S3 demands.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        proxies={} if is_local else None,
    )
    return {"config": config}


@contextlib.contextmanager
def asking(what: str) -> Iterator[None]:
    """Ask within; errors come out as ours.

    Args:
        what: What is asked for, to begin the message with.

    Raises:
        AbsentError: It is not there.
        RefusedError: Whoever asks may not.
        UnavailableError: No answer.
        UsageError: Settings lead nowhere.
    """
    from botocore.exceptions import (  # noqa: PLC0415 - as above
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        PartialCredentialsError,
    )
    from botocore.parsers import ResponseParserError  # noqa: PLC0415 - as above

    try:
        yield
    except ClientError as error:
        raise _refusal(what, error) from error
    except (ResponseParserError, LookupError, TypeError, AttributeError, RecursionError) as error:  # no S3, no IAM
        raise UnavailableError(
            f"the object store's answer is not understood: {what} ({type(error).__name__})", hint=_SETTINGS
        ) from error
    except (NoCredentialsError, PartialCredentialsError, ValueError) as error:
        raise UsageError(f"{what}: {error}", hint=_SETTINGS) from error
    except BotoCoreError as error:
        raise UnavailableError(
            f"the object store does not answer: {what}: {str(error)[:_LONGEST]}",
            hint="no agent is touched by that; run the same command again",
        ) from error


def _refusal(what: str, error: "ClientError") -> HermesError:
    said = error.response.get("Error", {})
    code, message = str(said.get("Code", "")), str(said.get("Message", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    words = f"{what}: {code} {message}".strip()[:_LONGEST]
    if status == HTTPStatus.NOT_FOUND:
        return AbsentError(words, hint=_SETTINGS)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in {0, HTTPStatus.TOO_MANY_REQUESTS}:
        return UnavailableError(words, hint="no agent is touched by that; run the same command again")
    return RefusedError(words, hint=_SETTINGS)
