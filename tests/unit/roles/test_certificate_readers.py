"""Each unit that reads the certificate of a platform's host reads it again once it is renewed."""

import yaml

from hermesops.base import assets


def test_units_that_read_the_hosts_key_are_reloaded_with_it() -> None:
    """Else they show the old one until it has ended, and nobody trusts them any more."""
    roles = assets.folder("roles")
    readers = {
        path.name.removesuffix(".j2")
        for path in roles.glob("hermes_platform_*/templates/*.service.j2")
        if "SupplementaryGroups=hermes-platform-tls" in path.read_text()
    }
    variables = yaml.safe_load((roles / "hermes_platform_tls/vars/main.yml").read_text())
    reloaded = {unit["name"] for unit in variables["__hermes_platform_tls_units"] if unit["reload"]}

    assert len(readers) > 5
    assert reloaded == readers
