"""Which alert leads to which runbook, which fault each is run against, and by which test: none is missing."""

import ast
import re
from pathlib import Path

from hermesops.base import assets
from hermesops.cli.views.instance.model_provider import provider_lines
from hermesops.model.providers.table import BY_ID
from hermesops.observability.runbook.command import Ended
from hermesops.observability.runbook.document import Kind, Runbook, load, names
from hermesops.observability.runbook.fault import OnMachine
from hermesops.observability.runbook.faults import FAULTS, fault
from hermesops.observability.runbook.run import holds
from tests.support.faults.messenger_table import MESSENGER_CHAINS
from tests.support.faults.platform_table import PLATFORM_CHAINS
from tests.support.faults.table import CHAINS, NOT_HAD
from tests.support.faults.users_table import USERS_CHAINS
from tests.support.runbooks.executions import ELSEWHERE, EXECUTIONS
from tests.support.suite.cases import each_case
from tests.support.users.model_provider import choice_of

FOLDER = assets.folder("runbooks")
TOP = Path(__file__).parents[4]
RUNBOOKS = {name: load(FOLDER, name) for name in names(FOLDER)}
RULES = sorted((TOP / "roles/hermes_platform_monitoring/files/rules").glob("*.y*ml"))


def alerts_of_rules() -> dict[str, str]:
    """The runbook of each alert, as its rule names it."""
    problems = {}
    for file in RULES:
        rules = re.split(r"^\s*- alert:\s*", file.read_text(), flags=re.MULTILINE)[1:]
        for rule in rules:
            name = rule.partition("\n")[0].strip()
            url = re.search(r"runbook_url:.*?([a-z0-9-]+)\.md", rule)
            assert url, f"{file.name}: {name} names no runbook"
            problems[name] = url[1]
    return problems


def test_every_alert_leads_to_one_runbook() -> None:
    by_alert = [(alert, name) for name, runbook in RUNBOOKS.items() for alert in runbook.alerts]
    assert len(dict(by_alert)) == len(by_alert), "an alert leads to two runbooks"
    if RULES:
        assert dict(by_alert) == alerts_of_rules()


@each_case("runbook", RUNBOOKS.values(), ids=RUNBOOKS)
def test_every_runbook_is_run_against_a_fault(runbook: Runbook) -> None:
    faults = [fault for fault in FAULTS if fault.runbook == runbook.name]
    assert faults
    assert {alert for fault in faults for alert in fault.alerts} == set(runbook.alerts)
    assert any(step.kind is Kind.READ for step in runbook.steps)


def test_every_fault_is_brought_about_by_a_test() -> None:
    assert {fault.name for fault in FAULTS if not fault.is_drilled} == {*EXECUTIONS, *ELSEWHERE}
    for where in ELSEWHERE.values():
        file, _, function = where.partition("::")
        tree = ast.parse((TOP / file).read_text())
        assert function in {statement.name for statement in tree.body if isinstance(statement, ast.AsyncFunctionDef)}


def test_every_alert_fires_on_real_machines_or_it_is_told_why_not() -> None:
    tried = {chain.alert for chain in (*CHAINS, *PLATFORM_CHAINS, *USERS_CHAINS, *MESSENGER_CHAINS) if chain.alert}
    left = {entry.alert for entry in NOT_HAD if entry.alert}
    assert tried | left == set(alerts_of_rules())
    assert not tried & left


def test_every_fault_of_one_machine_is_brought_about_on_a_real_one_or_it_is_told_why_not() -> None:
    chains = (*CHAINS, *PLATFORM_CHAINS, *USERS_CHAINS, *MESSENGER_CHAINS)
    tried = {chain.fault for chain in chains}
    assert len(tried) == len(chains)
    left = {entry.fault for entry in NOT_HAD}
    assert {fault.name for fault in FAULTS if fault.is_drilled} <= tried | left
    assert not tried & left
    for chain in chains:
        assert chain.entry or (chain.meaning and chain.inject), chain.fault
        assert chain.runbook in {"", "none", *RUNBOOKS}


def test_faults_are_named_once_and_have_a_runbook() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert {fault.runbook for fault in FAULTS} <= set(RUNBOOKS)
    for declared in FAULTS:
        assert len(f"drill-{declared.name}") <= 31, "it is a user's alias"
        assert (declared.sign is None) == (not declared.inject)


def test_a_fault_is_found_by_its_alert_and_by_its_runbook() -> None:
    assert fault("HeartbeatMissed").name == fault("heartbeat-missed").name == "machine-stopped"


def test_scripts_of_faults_are_about_the_machine_alone() -> None:
    scripts = [action.script for fault in FAULTS for action in fault.inject if isinstance(action, OnMachine)]
    assert not [script for script in scripts if re.search(r"\b(date -s|timedatectl|sysctl|nft|ip) ", script)]


@each_case("runbook", RUNBOOKS.values(), ids=RUNBOOKS)
def test_no_run_takes_a_turn_that_a_user_pays(runbook: Runbook) -> None:
    names = [step.name for step in runbook.steps]
    for step in runbook.steps:
        if step.command[:2] != ("instance", "chat"):
            continue
        (guard,) = [guard for guard in step.guards if guard.step == "provider"]
        reading = runbook.steps[names.index(guard.step)]
        assert (reading.kind, reading.command) == (Kind.READ, ("instance", "model-provider", "USER"))
        for choice, is_taken in ((None, True), (choice_of(BY_ID["openai"]), False)):
            ended = Ended(0, "\n".join(provider_lines(choice)))
            assert holds(guard, ended) == is_taken
