"""Clients of AWS's API and of compatible servers: calls bounded in time and size, and its errors as ours."""

import contextlib
import io
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hermesops.base import blocking
from hermesops.base.network.variables import OF_AWS, PROXIES, NetworkVariables, Proxy, proxy_hint, without_password
from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError, UsageError
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    import boto3
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.config import Config
    from botocore.exceptions import ClientError, ProxyConnectionError

_WITHOUT_PROFILE = {"profile": (None, None, None, None)}
"""Variables of a session: its setting, variable, default and type; no variable names its profile."""

_CONNECT_S, _READ_S, _TRIES = 5, 15, 2
_LONGEST = 300
"""Characters that are repeated of what a store says."""

STORE = "the object store"

_AGAIN = "no agent is touched by that; run the same command again"
_SETTINGS = Hint(("settings", "show"), ": look at backup.bucket, backup.endpoint and backup.key_file")


class AbsentError(UsageError):
    """There is no such thing there."""


def open_session(
    key: tuple[str, str] | None = None,
    *,
    region: str | None = None,
    profile: str | None = None,
    credentials_file: Path | None = None,
) -> "boto3.Session":
    """A session of boto3's.

    Args:
        key: Access key and secret key. With them no profile counts, whatever ``AWS_PROFILE`` says.
        profile: In the place of the one that ``AWS_PROFILE`` names.
        credentials_file: In the place of ``~/.aws/credentials``.

    Raises:
        UsageError: There is no such profile.
    """
    import boto3  # noqa: PLC0415 - as above
    import botocore.session  # noqa: PLC0415 - as above
    from botocore.exceptions import ProfileNotFound  # noqa: PLC0415 - as above

    core = botocore.session.Session(profile=profile, session_vars=_WITHOUT_PROFILE if key else None)
    if credentials_file:
        core.set_config_variable("credentials_file", str(credentials_file))
    access, secret = key or (None, None)
    try:
        return boto3.Session(access, secret, region_name=region, botocore_session=core)
    except ProfileNotFound as error:
        raise UsageError(f"no AWS credentials: {error}", hint="correct AWS_PROFILE, or unset it") from error


def open_client(
    session: "boto3.Session",
    service: Any,  # noqa: ANN401 - boto3 has an overload for each service
    *,
    endpoint: str = "",
    ca_file: Path | None = None,
    config: "Config | None" = None,
    is_ours: bool = False,
) -> Any:  # noqa: ANN401 - as above
    """A client of boto3's: to addresses of our own past every proxy, to others as the operator's variables say.

    Args:
        endpoint: Empty for Amazon's own.
        ca_file: In the place of the authorities that variables name.
        config: In the place of ``client_options``.
        is_ours: Whether the endpoint is of the local world, whose addresses are not all loopback.

    Raises:
        UsageError: A variable names a proxy, a profile or authorities that cannot be used.
    """
    from botocore.config import Config  # noqa: PLC0415 - as above
    from botocore.exceptions import ProfileNotFound  # noqa: PLC0415 - as above

    variables = NetworkVariables.of_process()
    if ca_file is None and not endpoint.startswith("http:"):
        variables.authorities(*OF_AWS)  # the library reads them by itself
    options: Config = config or client_options(is_local=True)["config"]
    verify = str(ca_file) if ca_file else None

    def made(proxies: dict[str, str]) -> Any:  # noqa: ANN401 - as above
        through = options.merge(Config(proxies=proxies))
        return session.client(service, endpoint_url=endpoint or None, verify=verify, config=through)

    try:
        client = made({})
        # Where it leads is known once it is made: a variable or a profile may name another place than Amazon.
        proxies = {} if is_ours else variables.http_proxy_for(client.meta.endpoint_url, whom=service)
        return made(proxies) if proxies else client
    except ProfileNotFound as error:
        raise UsageError(f"no AWS credentials: {error}", hint="correct AWS_PROFILE, or unset it") from error


def client_options(*, is_local: bool) -> dict[str, Any]:
    """Arguments of every boto3 client; clients of local endpoints bypass all proxies."""
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
def asking(what: str, *, whom: str = STORE, hint: Hint = _SETTINGS) -> Iterator[None]:
    """Turn the API's errors in the block into ours.

    Messages begin with ``what``.

    Args:
        whom: Who is asked, as messages name it.
        hint: Where the settings are that lead there.

    Raises:
        AbsentError: It is not there.
        RefusedError: The credential may not do that.
        UnavailableError: No answer.
        UsageError: The settings lead to no such service.
    """
    from botocore.exceptions import (  # noqa: PLC0415 - as above
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        PartialCredentialsError,
        ProxyConnectionError,
    )
    from botocore.parsers import ResponseParserError  # noqa: PLC0415 - as above

    try:
        yield
    except ClientError as error:
        raise _refusal(what, error, hint) from error
    except (ResponseParserError, LookupError, TypeError, AttributeError, RecursionError) as error:  # no S3, no IAM
        raise UnavailableError(
            f"{whom}'s answer cannot be parsed: {what} ({type(error).__name__})", hint=hint
        ) from error
    except (NoCredentialsError, PartialCredentialsError, ValueError) as error:
        raise UsageError(f"{what}: {error}", hint=hint) from error
    except ProxyConnectionError as error:
        raise unasked(f"{whom}, {what}", error) from error
    except BotoCoreError as error:
        raise UnavailableError(
            f"{whom} does not answer: {what}: {one_line(str(error), longest=_LONGEST)}",
            hint=_AGAIN,
        ) from error


def unasked(what: str, error: "ProxyConnectionError") -> UnavailableError:
    """The error that a proxy means which does not answer, or lets nobody through; botocore hides its password."""
    shown, variables = without_password(str(error.kwargs.get("proxy_url", ""))), NetworkVariables.of_process()
    named = (proxy for name in PROXIES if (proxy := variables.proxy(name)) and proxy.shown == shown)
    proxy = next(named, Proxy("a variable", shown))
    problem = f"the proxy {shown}, which {proxy.variable} names, does not answer, or refuses"
    return UnavailableError(f"{what}: not sent: {problem}", hint=proxy_hint(proxy))


def _refusal(what: str, error: "ClientError", hint: Hint) -> HermesError:
    details = error.response.get("Error", {})
    code, message = str(details.get("Code", "")), str(details.get("Message", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    words = one_line(f"{what}: {code} {message}".strip(), longest=_LONGEST)
    if status == HTTPStatus.NOT_FOUND:
        return AbsentError(words, hint=hint)
    busy = status in {0, HTTPStatus.TOO_MANY_REQUESTS} or code.startswith("Throttling")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or busy:
        return UnavailableError(words, hint=_AGAIN)
    return RefusedError(words, hint=hint)


T = TypeVar("T")

CALL_S = 60.0
"""Seconds for a call of a few requests."""

_LARGEST = 16 << 20
"""Bytes of an answer: a page of a thousand keys, the largest that S3 gives, has less than one megabyte."""


async def call(
    work: Callable[..., T],
    *args: Any,  # noqa: ANN401 - handed on
    within_s: float = CALL_S,
    whom: str = STORE,
    **named: Any,  # noqa: ANN401 - as above
) -> T:
    """Call a service in a thread of its own, through a client that ``bound_answers`` bounded.

    It is abandoned after ``within_s`` seconds.

    Raises:
        UnavailableError: It was abandoned, or too many others wait for an answer.
    """
    return await blocking.call(partial(work, *args, **named), whom=whom, within_s=within_s)


def bound_answers(client: Any, whom: str = STORE) -> None:  # noqa: ANN401 - the stubs of boto3's clients lack what is used here
    """Make a client of boto3's keep to the deadline of a ``call`` and to a largest answer.

    Its requests go out as before, except those of a call that was abandoned.
    """
    session: Any = client._endpoint.http_session  # noqa: SLF001 - the client's own, with its proxies and certificates

    def send(request: "AWSPreparedRequest", **_: object) -> Any:  # noqa: ANN401 - as above
        from botocore.exceptions import ResponseStreamingError  # noqa: PLC0415 - loads for half a second
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - as above

        blocking.refuse_late(whom)
        request.stream_output = True  # the answer is read here, not by the session
        answer = session.send(request)
        try:
            # The body is read once here; botocore.awsrequest then finds it there.
            answer._content = blocking.read(answer.raw, whom=whom, largest=_LARGEST)  # noqa: SLF001
            answer.raw = io.BytesIO(answer._content)  # noqa: SLF001 - an object's content is read from here
        except HTTPError as error:
            raise ResponseStreamingError(error=error) from error
        return answer

    client.meta.events.register("before-send", send)
