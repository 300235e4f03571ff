"""Environments of the processes of users, as a platform's host gives them."""

from pathlib import Path

from hermesops.access.secrets.catalog import BILLING_SECRET, MESSAGES_KEY
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.agents.relay.credential import CallerPem
from hermesops.agents.relay.routes import API
from hermesops.base.files.private_file import replace_secret
from hermesops.programs.node.system import openssl
from hermesops.settings.environment import Environment
from hermesops.store.registry.database import Database
from tests.support.real.relay import HOST
from tests.support.users.api import STRIPE, UsersApi

NAME = "staging"


def messages_key(home: Path, ring: str = "") -> str:
    """Give a process the key of messages; a fresh one unless given. Returns it."""
    text = ring or Ring.fresh().to_text()
    replace_secret(home / NAME / "keys" / MESSAGES_KEY.name, text)
    return text


def environment(home: Path, api: UsersApi, database: Database, origin: str, **more: str) -> Environment:
    """The environment of a process whose pages are at ``origin``.

    Args:
        database: As the process has it.
        more: Settings by the names of their variables.
    """
    url = api.issuer.url
    variables = {
        "HOME": str(home),
        "HERMESOPS_HOME": str(home),
        "HERMESOPS_REGISTRY_URL": database._url.render_as_string(hide_password=False),
        "HERMESOPS_WEB_ORIGIN": origin,
        "HERMESOPS_WEB_ISSUER": url,
        "HERMESOPS_WEB_CLIENT_ID": "hermes-web",
        "HERMESOPS_WEB_KEYS_URL": f"{url}/keys",
        "HERMESOPS_WEB_AUTHORIZE_URL": f"{url}/authorize",
        "HERMESOPS_WEB_TOKEN_URL": f"{url}/token",
        **more,
    }
    return Environment.load(NAME, variables)


def of_api(home: Path, api: UsersApi, origin: str, ring: str = "") -> Environment:
    """The environment of a process of the API, with its keys and its certificate for the relay."""
    key = openssl.make()
    admitted = api.relay.callers.admit(API, openssl.request(key).decode(), why="test")
    replace_secret(home / "relay.pem", CallerPem(key.decode(), admitted.certificate, admitted.authorities).text)
    replace_secret(home / NAME / "keys" / BILLING_SECRET.name, STRIPE.secret)
    messages_key(home, ring)
    relay = {
        "HERMESOPS_RELAY_URL": f"https://{HOST}:{api.relay.port}",
        "HERMESOPS_RELAY_CREDENTIAL_FILE": str(home / "relay.pem"),
    }
    return environment(home, api, api.database, origin, **relay)
