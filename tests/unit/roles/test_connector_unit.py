"""The connector's unit is as closed as that of the users' API, which the internet reaches by the same door."""

from tests.support.releases.role_files import rendered

API, CONNECTOR, CONSOLE = "hermes_platform_api", "hermes_platform_connector", "hermes_platform_console"
GIVEN = {f"{role}_environment": "staging" for role in (API, CONNECTOR, CONSOLE)}


def _lines(role: str, template: str, own: str) -> set[str]:
    text = rendered(role, template, {**GIVEN, "item": 1})
    return {line.replace(own, "PROCESS") for line in text.splitlines() if line and not line.startswith("#")}


def test_what_differs_from_the_apis_unit_is_its_own() -> None:
    api = _lines(API, "hermesops-api.service.j2", "hermesops-api")
    connector = _lines(CONNECTOR, "hermesops-connector.service.j2", "hermesops-connector")
    own = {line.partition("=")[0] for line in connector ^ api}

    assert own == {
        *("Description", "Requires", "After", "Environment", "ExecStartPre", "ExecStart"),
        *("LimitNOFILE", "ReadWritePaths", "InaccessiblePaths"),
    }


def test_the_consoles_unit_is_as_closed_and_may_write_nothing() -> None:
    api = _lines(API, "hermesops-api.service.j2", "hermesops-api")
    console = _lines(CONSOLE, "hermesops-console.service.j2", "hermesops-console")
    own = {line.partition("=")[0] for line in console ^ api}

    assert own == {
        *("Description", "Requires", "After", "Environment", "ExecStartPre", "ExecStart"),
        *("ReadWritePaths", "InaccessiblePaths"),
    }
    assert not [line for line in console if line.startswith("ReadWritePaths")]


def test_no_process_of_users_reads_anothers_home() -> None:
    homes = {
        f"-/var/lib/hermesops{name}"
        for name in ("", "-identity", "-relay", "-api", "-connections", "-connector", "-console")
    }
    for role in (API, "hermes_platform_connections", CONNECTOR, CONSOLE):
        name = f"hermesops-{role.rpartition('_')[2]}"
        text = rendered(role, f"{name}.service.j2", {f"{role}_environment": "staging", "item": 1})
        closed = {
            word for line in text.splitlines() if line.startswith("InaccessiblePaths=") for word in line[18:].split()
        }
        assert homes - closed == {f"-/var/lib/{name}"}
