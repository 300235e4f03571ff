"""Each client is made by the home of addresses: otherwise its library reads the variables of the shell by itself."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import hermesops

ROOT = Path(hermesops.__file__).parents[1]
PLACES = ("hermesops", "ansible", "roles", "pulumi", "images")

_VERBS = "get|post|put|patch|delete|head|options|request|stream"
CLIENTS = re.compile(
    rf"""
    httpx\.((Async)?(Client|HTTPTransport)|create_ssl_context|Proxy|{_VERBS})
    | requests\.({_VERBS})
    | (requests\.)?Session
    | (urllib3\.)?(PoolManager|ProxyManager)
    | boto3\.(client|resource|Session)
    | botocore\.session\.(Session|get_session)
    | stripe\.(StripeClient|\w+Client)
    | (grpc\.)?(aio\.)?(in)?secure_channel
    | (urllib\.)?(request\.)?(urlopen|urlretrieve|build_opener)
    | (http\.client\.)?HTTPS?Connection
    | ssl\.create_default_context
    | (aiohttp|websockets)\.\w+
    """,
    re.VERBOSE,
)
"""Calls that make a client, or its trust, by their dotted names."""

EXPLAINED = {
    "hermesops/base/network/variables.py": "the home",
    "hermesops/base/network/http.py": "the home",
    "hermesops/base/network/sessions.py": "the home",
    "hermesops/base/network/channels.py": "the home",
    "hermesops/base/network/aws_client.py": "the home of boto3's clients, by what the home says",
    "hermesops/users/billing/stripe_api.py": "Stripe's, with a session of the home",
    "hermesops/infra/stacks/platform/aws/functions/redis_password.py": "runs on AWS, alone",
    "hermesops/programs/ingest/nginx.py": "on the platform's host, without an operator's shell; asks its own host",
    "hermesops/programs/ingest/revocations.py": "on the platform's host, without an operator's shell",
    "hermesops/programs/ingest/server.py": "on the platform's host, without an operator's shell; asks its own host",
    "hermesops/programs/node/instance/agent/api.py": "on a machine, without an operator's shell; asks its own host",
    "hermesops/programs/node/system/https.py": "on a machine, without an operator's shell",
    "hermesops/machines/verify/on_machine/observer.py": "on a machine, without an operator's shell",
    "ansible/plugins/modules/hermes_units.py": "on a machine; without any proxy",
    "roles/hermes_platform_aws/files/amazon_alarms.py": "on the platform's host, without an operator's shell",
    "roles/hermes_platform_aws/files/database_passwords.py": "on the platform's host, without an operator's shell",
    "roles/hermes_platform_object_store/files/object_store_setup.py": "on the platform's host; asks its own host",
}


def constructions(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of each call that makes a client."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and CLIENTS.fullmatch(name := _dotted(node.func)):
            yield node.lineno, name


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{owner}.{name}" if (owner := _dotted(value)) else ""
    return ""


def test_every_client_is_made_by_the_home_or_explained() -> None:
    names, beside = set[str](), list[str]()
    hint = re.compile(
        r"httpx|[Rr]equests|urllib|boto|stripe|grpc|_channel|HTTPS?Connection|create_default_context|aiohttp|websockets"
    )
    for file in (file for place in PLACES for file in sorted((ROOT / place).rglob("*.py"))):
        text = file.read_text()
        if not hint.search(text):
            continue
        place = str(file.relative_to(ROOT))
        for line, name in constructions(text):
            names.add(place)
            if place not in EXPLAINED:
                beside.append(f"{place}:{line} {name}")
    assert beside == [], "make it by hermesops.base.network, or explain it"
    assert set(EXPLAINED) <= names, "an explanation without a client is to be removed"


def test_the_walk_knows_every_library() -> None:
    for text in (
        "httpx.AsyncClient()",
        "httpx.get('u')",
        "httpx.HTTPTransport()",
        "httpx.create_ssl_context()",
        "Session()",
        "requests.Session()",
        "requests.post('u')",
        "urllib3.PoolManager()",
        "boto3.client('s3')",
        "boto3.Session()",
        "botocore.session.Session()",
        "stripe.StripeClient('k')",
        "grpc.insecure_channel('a')",
        "grpc.aio.secure_channel('a')",
        "urllib.request.urlopen('u')",
        "request.build_opener()",
        "http.client.HTTPSConnection('h')",
        "ssl.create_default_context()",
    ):
        assert list(constructions(text)), text
    for other in ("httpx.URL('u')", "session.get('u')", "client(timeout=1)", "found.get('a')", "httpx.Limits()"):
        assert not list(constructions(other)), other
