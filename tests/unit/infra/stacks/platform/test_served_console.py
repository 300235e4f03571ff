"""The served console of a platform on AWS, as its settings name it, and what the program makes of it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.access.sign_in.console_sign_in import issuer_client_of, operator_tokens_of
from hermesops.console.operators import gate
from hermesops.errors import UsageError
from hermesops.infra.stacks.platform.served_console import (
    MOST_NETWORKS,
    PAGES,
    SIGNED_IN,
    ServedConsole,
    networks_of,
    served_console,
)
from hermesops.infra.stacks.platform.spec import PlatformSpec
from hermesops.infra.stacks.platform.users_half import users_half
from hermesops.platform.aws.program import platform_spec
from hermesops.settings.environment import Environment
from hermesops.settings.fields import Settings, variable_of
from tests.support.platform.environments import program_of, run_of, spec_of, variables_of
from tests.support.platform.mock_aws import Run, run
from tests.support.suite.cases import each_case

HOST = "console.staging.hermes.example"
ORIGIN = f"https://{HOST}"
OF_USERS = {"origin": "https://app.staging.hermes.example"}
NETWORK = "203.0.113.0/24"
CONSOLE = {"origin": ORIGIN, "networks": NETWORK}
OWN = {
    "issuer": "https://issuer.example",
    "client_id": "c",
    "keys_url": "https://issuer.example/keys",
    "authorize_url": "https://issuer.example/authorize",
    "token_url": "https://issuer.example/token",
    "operators": "sre",
}


def spec(console: Mapping[str, Any], web: Mapping[str, Any] | None = None) -> PlatformSpec:
    """Staging with these settings; its domain is staging.hermes.example."""
    return replace(spec_of("staging"), settings={"web": OF_USERS if web is None else web, "console": console})


def console_of(console: Mapping[str, Any], web: Mapping[str, Any] | None = None) -> ServedConsole | None:
    """The served console of these settings."""
    settings = spec(console, web)
    return served_console(settings, users_half(settings))


def ran(console: Mapping[str, Any]) -> Run:
    """The program with these settings."""
    settings = spec(console)
    return run(program_of(settings), settings.place)


def test_a_console_is_served_where_settings_name_its_address_and_who_reaches_it() -> None:
    assert console_of({}) is None
    assert console_of({"networks": NETWORK, "issuer": "https://issuer.example"}) is None
    assert console_of(CONSOLE) == ServedConsole(HOST, (NETWORK,), has_issuer=False)
    assert console_of({**CONSOLE, "networks": "anywhere"}) == ServedConsole(HOST, (), has_issuer=False)
    assert console_of({**CONSOLE, **OWN}) == ServedConsole(HOST, (NETWORK,), has_issuer=True)


@each_case(
    ("changes", "expected"),
    [
        ({"origin": "https://console.example"}, "under a name below staging.hermes.example"),
        ({"origin": "https://staging.hermes.example"}, "console.origin is https://staging.hermes.example"),
        ({"origin": "https://app.staging.hermes.example"}, "is neither app.staging.hermes.example nor"),
        ({"origin": "https://auth.staging.hermes.example"}, "nor auth.staging.hermes.example"),
        ({"origin": "https://evilstaging.hermes.example"}, "console.origin is"),
        ({"origin": f"{ORIGIN}:8449"}, "a load balancer on port 443"),
        ({"networks": ""}, "missing console.networks: who may reach console.staging.hermes.example"),
        ({"networks": "203.0.113.1/24"}, "has host bits set"),
        ({"networks": "0.0.0.0/0"}, "is most of the internet; if every network may reach the console, say anywhere"),
        ({"networks": "128.0.0.0/1"}, "is most of the internet"),
        ({"networks": "2001:db8::/48"}, "is of IPv6"),
        ({"networks": ",".join(f"203.0.113.{n}/32" for n in range(MOST_NETWORKS + 1))}, "has 13 networks"),
        ({**OWN, "token_url": ""}, "without console.token_url"),
        ({**OWN, "operators": ""}, "without console.operators"),
    ],
)
def test_what_would_lock_out_or_let_in_is_refused_before_anything_is_made(
    changes: Mapping[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        console_of({**CONSOLE, **changes})


def test_a_console_without_a_load_balancer_of_users_is_refused() -> None:
    with pytest.raises(UsageError, match="it serves no users") as caught:
        console_of(CONSOLE, web={})
    assert "web.origin https://app.staging.hermes.example" in str(caught.value.hint)


def test_a_preview_refuses_before_it_makes_a_program() -> None:
    folder = Path(__file__).parents[5] / ".github" / "environments"
    given = {"HOME": "/nonexistent", "HERMESOPS_HOME": str(folder)}
    given[variable_of("web.origin")] = "https://app.hermes.example"
    given[variable_of("console.origin")] = "https://console.hermes.example"
    given[variable_of("console.networks")] = NETWORK
    env = Environment.load("production", given)
    assert platform_spec(env, env.settings.pulumi.backend).settings["console"]["networks"] == NETWORK

    for name, value in (("console.networks", ""), ("console.origin", "https://app.hermes.example")):
        env = Environment.load("production", {**given, variable_of(name): value})
        with pytest.raises(UsageError, match=name):
            platform_spec(env, env.settings.pulumi.backend)


def test_a_name_that_cognito_refuses_is_refused_first() -> None:
    settings = spec(CONSOLE)
    settings = replace(settings, place=replace(settings.place, environment="awsprod"))
    with pytest.raises(UsageError, match="no name with aws"):
        served_console(settings, users_half(settings))


def test_networks_are_written_as_every_reader_takes_them() -> None:
    assert networks_of("") == networks_of("anywhere") == ()
    assert networks_of("203.0.113.0/24,2001:db8:0:0::/48") == (NETWORK, "2001:db8::/48")


def test_what_both_halves_of_hermesops_know_is_the_same() -> None:
    assert (SIGNED_IN, PAGES) == (gate.CALLBACK, gate.PAGES)


def rules_of(done: Run) -> list[tuple[int, str, list[str]]]:
    """Rules of the load balancer: priority, what is done, and the networks."""
    rules = []
    for rule in done.judged.of("lb.ListenerRule"):
        (action,), conditions = rule.inputs["actions"], rule.inputs["conditions"]
        assert conditions[0] == {"hostHeader": {"values": [HOST]}}
        networks = [network for condition in conditions[1:] for network in condition["sourceIp"]["values"]]
        rules.append((rule.inputs["priority"], action["type"], networks))
    return sorted(rules)


def test_the_load_balancer_and_the_door_let_the_same_networks_through() -> None:
    networks = [f"203.0.113.{number}/32" for number in range(MOST_NETWORKS)]
    done = ran({**CONSOLE, "networks": ",".join(networks)})

    *ways, last = rules_of(done)
    assert [network for _, _, chunk in ways for network in chunk] == networks
    assert {kind for _, kind, _ in ways} == {"forward"}
    assert all(len(chunk) <= 4 for _, _, chunk in ways), "a rule takes five values, the name among them"
    assert last[1:] == ("fixed-response", [])
    assert variables_of(done)["hermes_platform_edge_console_networks"] == networks
    assert variables_of(done)["hermes_platform_edge_console_host"] == HOST


def test_every_network_is_let_through_where_the_settings_say_so() -> None:
    done = ran({**CONSOLE, "networks": "anywhere"})

    assert rules_of(done) == [(1, "forward", ["0.0.0.0/0"]), (100, "fixed-response", [])]
    assert variables_of(done)["hermes_platform_edge_console_networks"] == []
    users = OF_USERS["origin"]
    links = {"chat_page": f"{users}/hermes-max/chat", "api": f"{users}/api/hermes", "console": f"{ORIGIN}/console/"}
    assert done.exports["links"] == links


def test_its_name_has_a_certificate_of_its_own_at_the_listener() -> None:
    done = run_of("staging")

    certificate = done.one("acm.Certificate", "console-certificate")
    assert certificate.inputs["domainName"] == HOST
    assert certificate.inputs["region"] == "eu-central-1"
    assert done.one("lb.ListenerCertificate").inputs["certificateArn"].endswith("/console-certificate")
    assert done.one("route53.Record", "console-name").inputs["name"] == HOST


def test_without_a_console_nothing_of_it_is_made() -> None:
    done = ran({})

    resources = json.dumps([[resource.kind, resource.name, resource.inputs] for resource in done.judged.of_aws()])
    assert "ListenerRule" not in resources
    assert "dbuser:db-ABCDEFGHIJKL01234/console" not in resources
    assert [pool.name for pool in done.judged.of("cognito.UserPool")] == ["cognito"]
    assert not any("console" in name for name in variables_of(done))


def test_operators_are_a_pool_apart_whose_groups_are_the_roles() -> None:
    done = run_of("staging")
    pool = done.one("cognito.UserPool", "operators")
    client = done.one("cognito.UserPoolClient", "console")
    in_pool = {"userPoolId": "eu-central-1_Ofoperators"}.items()
    groups = [group for group in done.judged.of("cognito.UserGroup") if in_pool <= group.inputs.items()]
    table = variables_of(done)["hermes_platform_console_settings"]["console"]

    assert pool.inputs["mfaConfiguration"] == "ON"
    assert client.inputs["userPoolId"] == "eu-central-1_Ofoperators"
    assert client.inputs["callbackUrls"] == [f"{ORIGIN}{SIGNED_IN}"]
    assert {group.inputs["name"] for group in groups} == {"viewers", "operators", "admins"}
    assert {name: table[name] for name in ("viewers", "operators", "admins")} == {
        name: name for name in ("viewers", "operators", "admins")
    }
    assert table["issuer"] == "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Ofoperators"
    pages = "https://hermesops-staging-operators-111122223333.auth.eu-central-1.amazoncognito.com/oauth2"
    assert (table["authorize_url"], table["token_url"]) == (f"{pages}/authorize", f"{pages}/token")
    assert (table["client_id"], table["groups_claim"]) == ("console-id", "cognito:groups")


def test_an_issuer_of_the_operators_own_needs_no_pool() -> None:
    done = ran({**CONSOLE, **OWN})

    assert [pool.name for pool in done.judged.of("cognito.UserPool")] == ["cognito"]
    table = variables_of(done)["hermes_platform_console_settings"]["console"]
    assert table == {**CONSOLE, **OWN}


def test_workers_verify_operators_by_the_same_table() -> None:
    variables = variables_of(run_of("staging"))

    assert (
        variables["hermes_platform_control_settings"]["console"]
        == (variables["hermes_platform_console_settings"]["console"])
    )


def test_its_process_logs_in_by_a_token_and_has_the_hosts_own_certificate_for_monitoring() -> None:
    done = run_of("staging")
    variables = variables_of(done)
    rights = json.loads(done.one("iam.RolePolicy", "hosts").inputs["policy"])["Statement"]
    (logins,) = [statement for statement in rights if statement["Sid"] == "LoginsOfServices"]

    assert any(arn.endswith("/console") for arn in logins["Resource"])
    assert variables["hermes_platform_console_database"].startswith(
        "postgresql://console@postgresql.rds.internal:5432/"
    )
    assert "passfile=/etc/hermes-platform/passwords/hermesops-console" in variables["hermes_platform_console_database"]
    assert variables["hermes_platform_console_uses_certificate"] is False
    assert variables["hermes_platform_console_issues_credentials"] is True
    files = {entry["user"]: entry for entry in variables["hermes_platform_aws_user_passfiles"]}
    assert files["hermesops-console"]["role"] == "console"
    assert "hermesops-console" not in variables["hermes_base_metadata_users"], "it may not act as the host"


def test_its_settings_are_whole_and_name_nothing_of_users() -> None:
    given = variables_of(run_of("staging"))["hermes_platform_console_settings"]

    settings = Settings.model_validate(given)
    assert set(given) == {"console", "monitoring"}
    assert settings.monitoring.url == "https://staging.hermes.example:8443"
    assert issuer_client_of(settings.console)
    assert operator_tokens_of(settings.console)
