"""What a machine's logs take of the disk of the platform's host: Loki bounds a rate, so that is what is reckoned."""

import re

import jinja2
import yaml

from hermesops.base import assets

ROLE = assets.folder("roles") / "hermes_platform_monitoring"


def limits(**given: object) -> tuple[float, float]:
    """The burst in MB and the rate in MB a second, as the role reckons them."""
    variables = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    own = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())
    engine = jinja2.Environment()  # noqa: S701 - no page is made
    engine.filters["regex_replace"] = lambda text, pattern, new: re.sub(pattern, new, text)
    burst = own["__hermes_platform_monitoring_logs_burst_mb"]
    named = {"__hermes_platform_monitoring_logs_burst_mb": burst}
    role_variables = {f"hermes_platform_monitoring_{name}": value for name, value in given.items()}
    rate = engine.from_string(own["__hermes_platform_monitoring_logs_rate"]).render(variables | named | role_variables)
    return burst, float(rate)


def test_no_machine_has_more_than_its_share_within_the_retention() -> None:
    for share_mb, hours in ((2048, 168), (200, 24), (10_000, 720)):
        burst, rate = limits(machine_logs_mb=share_mb, logs_retention=f"{hours}h")
        most = burst + rate * hours * 3600
        assert 0.98 * share_mb < most <= 1.001 * share_mb, (share_mb, hours)


def test_loki_is_told_both_and_machines_send_again_what_it_refuses() -> None:
    loki = (ROLE / "templates" / "loki.yml.j2").read_text()
    assert "ingestion_rate_mb: {{ __hermes_platform_monitoring_logs_rate }}" in loki
    assert "ingestion_burst_size_mb: {{ __hermes_platform_monitoring_logs_burst_mb }}" in loki
    unit = (ROLE / "templates" / "hermes-platform-ingest.service.j2").read_text()
    assert "--log-bytes-per-s={{ (__hermes_platform_monitoring_logs_rate | float * 2000000) | round | int }}" in unit
    prometheus = (assets.folder("roles") / "hermes_monitoring" / "templates" / "prometheus.yml.j2").read_text()
    assert "      retry_on_http_429: true\n" in prometheus, "else profile full drops what has to wait"
