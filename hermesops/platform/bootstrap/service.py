"""Specification of an environment's bootstrap, from its settings."""

from collections.abc import Callable
from urllib.parse import urlsplit

from hermesops.base.network.aws_client import call
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.infra.engine.embedded.state.bucket import parse_bucket
from hermesops.model.check import CheckRun
from hermesops.platform.bootstrap.account import Account
from hermesops.platform.bootstrap.clients import AWS
from hermesops.platform.bootstrap.runner import Bootstrap
from hermesops.platform.bootstrap.spec import BootstrapSpec, PipelineRole, bucket_of
from hermesops.settings.environment import Environment


def bootstrap_of(
    env: Environment, *, account: str, region: str, undo: bool, report: Callable[[str], None]
) -> Bootstrap:
    """The bootstrap of an environment.

    Args:
        account: What ``--account`` says; empty: the setting.
        region: What ``--region`` says; empty: the setting.

    Raises:
        UsageError: The environment has no account or no region, or an option contradicts a setting.
    """
    if env.is_local:
        raise UsageError(
            "the local world needs no AWS account",
            hint=Hint(("env", "list"), "shows the others"),
        )
    spec = spec_of(env, account=account, region=region)
    return Bootstrap(spec, Account(spec.region), report, undo)


def spec_of(env: Environment, *, account: str = "", region: str = "") -> BootstrapSpec:
    """Derive the bootstrap's specification from settings and options.

    Raises:
        UsageError: The environment has no account or no region, or an option contradicts a setting.
    """
    settings = env.settings
    chosen = _agreed("account", account, settings.platform.account)
    place = _agreed("region", region, settings.platform.region)
    if not (chosen.isascii() and chosen.isdigit() and len(chosen) == 12):  # noqa: PLR2004 - as AWS numbers them
        raise UsageError(f"account {chosen!r}: an AWS account has 12 digits")
    return BootstrapSpec(
        environment=env.name,
        account=chosen,
        region=place,
        bucket=_bucket(settings.pulumi.backend, place) or bucket_of(env.name, chosen),
        issuer=settings.oidc.issuer,
        audience=settings.oidc.audience,
        subjects={
            PipelineRole.PREVIEW: _patterns(settings.oidc.preview_subjects),
            PipelineRole.APPLY: _patterns(settings.oidc.subjects),
        },
    )


def account_checks(env: Environment) -> dict[str, CheckRun]:
    """Checks of the platform's account: credentials, state bucket and key.

    Empty where the settings name no account.
    """
    if not env.settings.platform.account:
        return {}

    async def caller() -> str:
        spec = spec_of(env)
        account, arn = await call(Account(spec.region).caller, whom=AWS)
        if account != spec.account:
            raise UsageError(
                f"the credentials are those of account {account}, not of {spec.account}",
                hint="use others (AWS_PROFILE), or correct platform.account",
            )
        return f"{arn} in {spec.region}"

    async def state() -> str:
        spec = spec_of(env)
        bucket = await call(Account(spec.region).bucket, spec, whom=AWS)
        if bucket is None:
            raise UsageError(f"there is no bucket {spec.bucket}", hint=Hint(("platform", "bootstrap"), "makes it"))
        if bucket.region != spec.region:
            raise UsageError(f"bucket {spec.bucket} is in {bucket.region}, the platform is in {spec.region}")
        if not bucket.is_versioned:
            raise RefusedError(
                f"bucket {spec.bucket} keeps no versions", hint=Hint(("platform", "bootstrap"), "mends it")
            )
        return f"{spec.bucket} answers in {bucket.region}, and keeps versions"

    async def key() -> str:
        spec = spec_of(env)
        return await call(Account(spec.region).check_key, spec, whom=AWS)

    return {"platform.account": caller, "platform.state": state, "platform.key": key}


def _agreed(what: str, option: str, setting: str) -> str:
    if option and setting and option != setting:
        raise UsageError(f"--{what} {option} contradicts platform.{what} {setting}", hint=Hint(("settings", "show")))
    if not (option or setting):
        raise UsageError(f"which {what}?", hint=f"set platform.{what}, or name it by --{what}")
    return option or setting


def _bucket(backend: str, region: str) -> str:
    """The bucket that the settings name; empty for none."""
    if not backend:
        return ""
    if urlsplit(backend).scheme != "s3":
        raise UsageError(
            f"pulumi.backend {backend} is no bucket", hint="leave it empty, or spell it s3://BUCKET?region=REGION"
        )
    bucket = parse_bucket(backend)
    named = bucket.texts.get("region", region)
    if named != region:
        raise UsageError(f"pulumi.backend names region {named}, the platform is in {region}")
    return bucket.name


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(pattern.strip() for pattern in text.split(",") if pattern.strip())
