"""The worst value of each setting: what breaks JSON, YAML, Jinja or a shell, where its pattern lets it through."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from hermesops.model.plan import Plan
from hermesops.settings.environment import Environment
from hermesops.settings.fields import FIELDS, Settings

NASTY = "a \"quoted\" 'word' \\ {{ 1 + 1 }} {% raw %} # = [x]\n\u00e9 \U0001f600 \t\x7f"
"""What breaks in JSON, in YAML, in Jinja or in a shell."""

NASTY_WORD = "".join(NASTY.split())

OF_A_PATTERN: Mapping[str, object] = {
    "region": NASTY_WORD,
    "plan_regions": {"light": NASTY_WORD, "heavy": NASTY_WORD},
    "server_types": {"light": NASTY_WORD, "heavy": NASTY_WORD},
    "platform_url": "https://10.0.0.1:8446",
    "monitoring.url": "https://10.0.0.1:8443",
    "monitoring.ingest_url": "https://10.0.0.1:8443",
    "monitoring.loki": f"https://mirror.test/loki#sha256={'0' * 64}",
    "release.sqlite": f"https://mirror.test/sqlite.zip#sha256={'0' * 64}",
    "release.interpreter": f"/srv/python.tar.gz#sha256={'0' * 64}",
    "relay.url": "https://127.0.0.1:8448",
    "web.origin": "https://pages.staging.hermes.example",
    "web.issuer": "https://issuer.test",
    "web.keys_url": "https://issuer.test/keys",
    "web.authorize_url": "https://issuer.test/authorize",
    "web.redis_url": "rediss://hermesops@redis.test:6380",
    "web.token_url": "https://issuer.test/token",
    "console.origin": "https://console.staging.hermes.example",
    "console.networks": "203.0.113.0/24,198.51.100.7/32",
    "console.issuer": "https://operators.test",
    "console.keys_url": "https://operators.test/keys",
    "console.authorize_url": "https://operators.test/authorize",
    "console.token_url": "https://operators.test/token",
    "console.scope": "openid email groups",
    "billing.meters": {"instance_days": NASTY, "model_micros": "m"},
    "billing.base_url": "https://stripe.test",
    "billing.metered_since": "2026-12-01",
    "billing.metered_prices": [NASTY],
    "connections.services": "gmail=ac_1,slack=ac_2",
    "connections.base_url": "https://composio.test",
    "messengers.telegram_bot": "helium_bot",
    "messengers.telegram_url": "https://telegram.test",
    "messengers.slack_app": "A0123456789",
    "messengers.slack_url": "https://slack.test/api",
    "messengers.whatsapp_number": "15550001111",
    "messengers.whatsapp_phone": "106540352242922",
    "messengers.whatsapp_account": "102290129340398",
    "messengers.discord_app": "1234567890123456789",
    "messengers.discord_public_key": "ab" * 32,
    "messengers.discord_url": "https://discord.test/api/v10",
    "messengers.whatsapp_url": "https://whatsapp.test/v24.0",
    "messengers.agents_url": "https://pages.staging.hermes.example",
    "connections.agents_url": "https://pages.staging.hermes.example/mcp",
    "platform.account": "111122223333",
    "platform.region": "eu-central-1",
    # Read as addresses once they are there.
    "api_url": "https://vendor.test/api/v1",
    "router.url": "https://router.test/v1",
    "backup.endpoint": "https://store.test",
    "backup.iam_endpoint": "https://iam.test",
    "prometheus_url": "https://prometheus.test",
    "oidc.issuer": "https://issuer.test",
    "releases": "s3://releases?region=eu-central-1",
    "pulumi.backend": "s3://state?region=eu-central-1",
    "billing.user_key": 'a "key" \\ \u00e9 {{ 1 }}',
}
"""Values that have to look like something."""


def sample(name: str) -> object:
    """The worst value that a setting takes, as settings.toml has it; ``None`` for files and secrets."""
    field = FIELDS[name]
    kind = str(field.annotation)
    if name in OF_A_PATTERN:
        return OF_A_PATTERN[name]
    if "Path" in kind or "SecretStr" in kind:
        return None
    if "frozenset" in kind:
        return sorted(get_args(get_args(field.annotation)[0]))
    if "Mapping" in kind:
        key_type, value_type = get_args(field.annotation)
        value = {Plan: "heavy", str: NASTY}.get(value_type, 7)
        return {("light" if key_type is Plan else NASTY): value, ("heavy" if key_type is Plan else "b.c"): value}
    if "Literal" in kind:
        return next(word for word in get_args(field.annotation) if word and word != field.default)
    if field.annotation is bool:
        return not field.default
    if field.annotation in {int, float}:
        return field.default
    return "123.45" if "Decimal" in kind else NASTY


def environment(home: Path) -> Environment:
    """An environment in which every setting is set that is no file and no secret."""
    given = {name: value for name in FIELDS if (value := sample(name)) is not None}
    nested: dict[str, Any] = {}
    for name, value in given.items():
        table, _, key = name.rpartition(".")
        (nested.setdefault(table, {}) if table else nested)[key] = value
    nested["operators"] = "verified"
    settings = Settings.model_validate(nested)
    sources = {name: "settings.toml" if name in given else "default" for name in FIELDS}
    return Environment("staging", home / "staging", settings, sources, {"HOME": str(home)})
