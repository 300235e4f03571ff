"""Grafana is served to readers alone, and believes nothing that they say of themselves."""

import re

import pytest

from hermesops.model.access.certificate import is_ours
from tests.support.releases.role_files import rendered

ROLE = "hermes_platform_monitoring"
GIVEN = {
    "hermes_platform_monitoring_environment": "staging",
    "hermes_platform_monitoring_machine_writes_per_second": 2,
    "hermes_platform_monitoring_machine_connections": 8,
    "hermes_platform_monitoring_machine_body_kib": 512,
    "hermes_platform_monitoring_port": 8443,
    "__hermes_platform_monitoring_nginx_run": "/run/n",
    "__hermes_platform_monitoring_nginx_data": "/var/n",
    "__hermes_platform_monitoring_revoked": "/etc/revoked",
    "__hermes_platform_monitoring_socket": "/run/s",
    "__hermes_platform_monitoring_settings": "/etc/m",
    "__hermes_platform_monitoring_ports": {"prometheus": 1, "alertmanager": 2, "loki": 3},
}


def location(*, grafana: bool) -> str:
    text = rendered(ROLE, "nginx.conf.j2", {**GIVEN, "hermes_platform_monitoring_grafana": grafana})
    search = re.search(r"location \^~ /grafana/ \{.*?\n        \}\n", text, re.DOTALL)
    return search[0] if search else ""


def test_where_there_is_no_grafana_nothing_leads_to_one() -> None:
    assert location(grafana=False) == ""


def test_only_a_reader_gets_there_with_the_name_of_the_certificate() -> None:
    block = location(grafana=True)
    assert 'if ($hermes_operator = "") {\n                return 403;' in block
    sets = dict(re.findall(r"proxy_set_header (\S+) (\S+);", block))
    assert sets == {
        "Host": "$host",
        "Connection": '""',
        "Cookie": '""',
        "Authorization": '""',
        "X-WEBAUTH-USER": "$hermes_reader",
    }
    assert "proxy_pass http://127.0.0.1:3000;" in block


def reader_of(subject: str) -> str:
    """The name that Grafana is given for the subject of a valid certificate, by nginx's two maps."""
    text = rendered(ROLE, "nginx.conf.j2", {**GIVEN, "hermes_platform_monitoring_grafana": True})
    name = subject
    for variable in ("hermes_service", "hermes_reader"):
        block = re.search(rf"map [^{{]*\${variable} \{{\n(.*?)\n    \}}\n", text, re.DOTALL)
        assert block
        match = next((m for rule in re.findall(r'"~(.+)" \$1;', block[1]) if (m := re.search(rule, name))), None)
        name = match[1] if match else ""
    return name


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("hermesops", "hermesops"),
        ("hermesops-monitor", "hermesops-monitor"),
        ("admin", ""),
        ("hermesopsadmin", ""),
        ("admin-hermesops", ""),
        ("hermesops,OU=x", ""),
        ("Admin", ""),
    ],
)
def test_no_certificate_names_grafanas_administrator(name: str, reader: str) -> None:
    """Grafana's own first user is called admin. Readers are hermesops' processes, whose names begin with hermesops."""
    assert reader_of(f"SUCCESS 0 OU=service,O=staging,CN={name}") == reader
    assert is_ours(name) is bool(reader), "no service that an operator admits has such a name"
    assert reader_of(f"SUCCESS 0 OU=machine,O=staging,CN={name}") == ""


def test_grafana_takes_the_name_from_this_host_alone() -> None:
    unit = rendered(ROLE, "grafana-server.conf.j2", GIVEN)
    settings = dict(re.findall(r"^Environment=(\S+?)=(\S+)$", unit, re.MULTILINE))
    assert settings["GF_SERVER_HTTP_ADDR"] == settings["GF_AUTH_PROXY_WHITELIST"] == "127.0.0.1"
    assert settings["GF_AUTH_PROXY_HEADER_NAME"] == "X-WEBAUTH-USER"
    assert settings["GF_USERS_AUTO_ASSIGN_ORG_ROLE"] == "Viewer"
    assert settings["GF_SERVER_ROOT_URL"].endswith("/grafana/")
