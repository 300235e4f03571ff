"""Sign-in of users and operators: a user pool of Cognito that Supabase and hermesops trust."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.functions.component import Function, FunctionArgs
from hermesops.infra.stacks.platform.spec import AuthSpec, Place

OPERATORS = "operators"
"""The group whose members may act on the fleet; claim ``cognito:groups``."""

_CLOUDFRONT_ZONE = "Z2FDTNDATAQYW2"
"""Of every name of CloudFront, behind which Cognito's pages are; source: Route 53's reference, "AliasTarget"."""

_MINUTES, _HOURS = 60, 12
_USER_DAYS = 30
_GRACE_S = 30
_CLAIMS_LIMIT_S = 5
_OPERATOR_PAGE = "http://localhost:8250/callback"
"""Where a command on an operator's computer waits for the answer (RFC 8252, 7.3)."""


@dataclass(frozen=True)
class CognitoArgs:
    """A user pool.

    Attributes:
        domain: Of its pages, as ``auth.example.com``.
        certificate_arn: For that name, in ``us-east-1``.
        zone_id: Of the zone that the name is in.
        parent: The record of the domain above, which has to be there first.
        claims_source: Python of the function that adds Supabase's claim to tokens.
        key_arn: Seals the function's environment.
        logs_key_arn: Seals its log.
        logs_days: Days for which that log is kept.
        sign_in_url: URL of the platform's own pages to which browsers come back; empty where it has none.
    """

    place: Place
    spec: AuthSpec
    domain: str
    certificate_arn: Input[str]
    zone_id: Input[str]
    parent: pulumi.Resource
    claims_source: str
    key_arn: Input[str]
    logs_key_arn: Input[str]
    logs_days: int
    sign_in_url: str = ""


@dataclass(frozen=True)
class ClientArgs:
    """A client of a pool.

    Attributes:
        callback: Pages to which browsers come back after the sign-in.
        logout: Pages to which they come back after signing out.
        token_minutes: Minutes for which access and ID tokens count.
        refresh_hours: Hours from the sign-in for which they are renewed.
    """

    pool_id: Input[str]
    callback: Sequence[str]
    logout: Sequence[str]
    token_minutes: int
    refresh_hours: int


def public_client(use: str, args: ClientArgs, opts: ResourceOptions) -> aws.cognito.UserPoolClient:
    """A client without a secret, which a browser or a command could not keep: codes are bound to it by PKCE.

    Managed login shows a client without a style no page at all.
    Source: Cognito developer guide, "Apply branding to managed login pages".
    """
    client = aws.cognito.UserPoolClient(
        use,
        name=use,
        user_pool_id=args.pool_id,
        generate_secret=False,
        allowed_oauth_flows_user_pool_client=True,
        allowed_oauth_flows=["code"],
        allowed_oauth_scopes=["openid", "email", "profile"],
        explicit_auth_flows=["ALLOW_USER_SRP_AUTH"],
        supported_identity_providers=["COGNITO"],
        callback_urls=list(args.callback),
        logout_urls=list(args.logout),
        access_token_validity=args.token_minutes,
        id_token_validity=args.token_minutes,
        refresh_token_validity=args.refresh_hours,
        token_validity_units={"access_token": "minutes", "id_token": "minutes", "refresh_token": "hours"},
        refresh_token_rotation={"feature": "ENABLED", "retry_grace_period_seconds": _GRACE_S},
        enable_token_revocation=True,
        prevent_user_existence_errors="ENABLED",
        opts=opts,
    )
    aws.cognito.ManagedLoginBranding(
        use, user_pool_id=args.pool_id, client_id=client.id, use_cognito_provided_values=True, opts=opts
    )
    return client


class Cognito(pulumi.ComponentResource):
    """Users, signed in by an e-mail address; their refresh tokens are used once.

    Attributes:
        issuer: Of all tokens; its keys are at ``/.well-known/jwks.json`` below it.
        app_client: Client id of the app; claim ``client_id`` of access tokens, ``aud`` of identity tokens.
        operator_client: Client id of commands on operators' computers.
        settings: Settings of table ``web`` that describe the issuer to the platform's own pages; none without pages.
        function_name: Of the function that adds claims, for alarms.
    """

    issuer: Output[str]
    app_client: Output[str]
    operator_client: Output[str]
    settings: Mapping[str, Input[str]]
    function_name: str

    def __init__(self, name: str, args: CognitoArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Cognito", name, None, opts)
        place = args.place
        claims = Function(
            "token-claims",
            FunctionArgs(
                place,
                source=args.claims_source,
                caller="cognito-idp.amazonaws.com",
                caller_arn=None,  # the pool names the function, so the function cannot name the pool
                timeout_s=_CLAIMS_LIMIT_S,
                key_arn=args.key_arn,
                logs_key_arn=args.logs_key_arn,
                logs_days=args.logs_days,
            ),
            ResourceOptions(parent=self),
        )
        pool = self._pool(name, args, claims)
        aws.cognito.UserGroup(
            OPERATORS,
            name=OPERATORS,
            user_pool_id=pool.id,
            description="May act on the fleet",
            precedence=1,
            opts=ResourceOptions(parent=self),
        )
        app = self._client("app", pool, [*args.spec.callback_pages], [*args.spec.logout_pages], _USER_DAYS * 24)
        operator = self._client("operator", pool, [_OPERATOR_PAGE], [], _HOURS)
        self._pages(name, args, pool)
        self.issuer = Output.concat("https://cognito-idp.", place.region, ".amazonaws.com/", pool.id)
        self.app_client, self.operator_client = app.id, operator.id
        self.settings = self._settings(args, pool) if args.sign_in_url else {}
        self.function_name = claims.function_name
        self.register_outputs(
            {"issuer": self.issuer, "app_client": self.app_client, "operator_client": self.operator_client}
        )

    def _settings(self, args: CognitoArgs, pool: aws.cognito.UserPool) -> dict[str, Input[str]]:
        """Source: Cognito developer guide, "User pool endpoints and managed login reference"."""
        pages = self._client("pages", pool, [args.sign_in_url], [], _USER_DAYS * 24)
        oauth = f"https://{args.domain}/oauth2"
        return {
            "issuer": self.issuer,
            "issuer_kind": "cognito",
            "client_id": pages.id,
            "keys_url": Output.concat(self.issuer, "/.well-known/jwks.json"),
            "authorize_url": f"{oauth}/authorize",
            "token_url": f"{oauth}/token",
        }

    def _pool(self, name: str, args: CognitoArgs, claims: Function) -> aws.cognito.UserPool:
        return aws.cognito.UserPool(
            name,
            name=args.place.prefix,
            user_pool_tier="ESSENTIALS",  # the least in which access tokens can get claims
            deletion_protection="ACTIVE",
            username_attributes=["email"],
            username_configuration={"case_sensitive": False},
            auto_verified_attributes=["email"],
            user_attribute_update_settings={"attributes_require_verification_before_updates": ["email"]},
            account_recovery_setting={"recovery_mechanisms": [{"name": "verified_email", "priority": 1}]},
            mfa_configuration="OPTIONAL",
            software_token_mfa_configuration={"enabled": True},
            password_policy={
                "minimum_length": 12,
                "require_lowercase": True,
                "require_numbers": True,
                "require_symbols": False,
                "require_uppercase": True,
                "temporary_password_validity_days": 7,
            },
            lambda_config={"pre_token_generation_config": {"lambda_arn": claims.arn, "lambda_version": "V2_0"}},
            tags=args.place.tags,
            opts=ResourceOptions(parent=self, protect=True, retain_on_delete=True, depends_on=[claims.permission]),
        )

    def _client(
        self, use: str, pool: aws.cognito.UserPool, callback: list[str], logout: list[str], refresh_hours: int
    ) -> aws.cognito.UserPoolClient:
        args = ClientArgs(pool.id, callback, logout, token_minutes=_MINUTES, refresh_hours=refresh_hours)
        return public_client(use, args, ResourceOptions(parent=self))

    def _pages(self, name: str, args: CognitoArgs, pool: aws.cognito.UserPool) -> None:
        pages = aws.cognito.UserPoolDomain(
            name,
            domain=args.domain,
            certificate_arn=args.certificate_arn,
            user_pool_id=pool.id,
            managed_login_version=2,
            opts=ResourceOptions(parent=self, depends_on=[args.parent]),
        )
        aws.route53.Record(
            f"{name}-pages",
            zone_id=args.zone_id,
            name=args.domain,
            type="A",
            aliases=[
                {
                    "name": pages.cloudfront_distribution,
                    "zone_id": _CLOUDFRONT_ZONE,
                    "evaluate_target_health": False,
                }
            ],
            opts=ResourceOptions(parent=self),
        )
