"""Events of the pulumi CLI, as the Automation API hands them on; of a machine ``m`` unless said otherwise."""

from pulumi.automation.events import EngineEvent

MACHINE = "urn:pulumi:dev::rec::justavps:index:Machine::m"
DEFAULT = "urn:pulumi:dev::rec::pulumi:providers:justavps::default"


def step(kind: str, op: str, urn: str = MACHINE, *, thing_id: str = "machine-1") -> EngineEvent:
    resource_type = urn.split("::")[2]
    state = {
        "type": resource_type,
        "urn": urn,
        "id": thing_id,
        "parent": "",
        "inputs": {},
        "outputs": {},
        "provider": "",
    }
    metadata = {
        "op": op,
        "urn": urn,
        "type": resource_type,
        "old": state,
        "new": state,
        "provider": "" if resource_type.startswith("pulumi:") else f"{DEFAULT}::1",
        "diffs": ["size"],
    }
    more = {"status": 1, "steps": 1} if kind == "resOpFailedEvent" else {}
    return EngineEvent.from_json({"sequence": 1, "timestamp": 0, kind: {"metadata": metadata, **more}})


def line(message: str, urn: str = MACHINE, severity: str = "error") -> EngineEvent:
    event = {"urn": urn, "message": message, "color": "never", "severity": severity}
    return EngineEvent.from_json({"sequence": 1, "timestamp": 0, "diagnosticEvent": event})
