import gzip
import json
from pathlib import Path

import pytest

from hermesops.infra.engine.embedded.state.deployment import (
    Resource,
    deployment_from_doc,
    latest_doc,
    resource_from_doc,
    resource_to_doc,
)
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault
from hermesops.infra.engine.options import UnsupportedByEmbeddedError
from tests.support.suite.cases import each_case

RECORDED = sorted((Path(__file__).parents[5] / "data" / "pulumi-recordings").glob("*.json.gz"))
URN = "urn:pulumi:dev::rec::justavps:index:Machine::m"
OTHERS = {"retainOnDelete", "deletedWith", "external"}


class NoVault(PassphraseVault):
    def __init__(self) -> None:
        super().__init__(str, salt="", keys={}, stack="dev")

    def encrypt(self, plaintext: str) -> str:
        raise AssertionError(plaintext)

    def decrypt(self, ciphertext: str) -> str:
        raise AssertionError(ciphertext)


@each_case("file", RECORDED, ids=lambda file: file.name.removesuffix(".json.gz"))
def test_states_of_the_cli_are_written_as_they_were_read(file: Path) -> None:
    states = [s for s in json.loads(gzip.decompress(file.read_bytes()))["checkpoints"].values() if isinstance(s, dict)]
    assert states
    for state in states:
        for doc in state["checkpoint"].get("latest", {}).get("resources", []):
            if not OTHERS & doc.keys():
                assert resource_to_doc(resource_from_doc(doc), NoVault()) == doc


def test_what_is_empty_is_left_out() -> None:
    assert resource_to_doc(Resource(urn=URN, type="t"), NoVault()) == {"urn": URN, "type": "t", "custom": False}
    latest = latest_doc([], [], secrets_provider=None, at="now")
    assert latest.keys() == {"manifest", "metadata"}
    assert latest["manifest"]["magic"] == "ab35920a3077459b09dd1a3f7ddc28df4e3efc81b3240013bb6906688abc684d"


@pytest.mark.parametrize("flag", ["retainOnDelete", "deletedWith", "external", "viewOf"])
def test_flags_that_change_what_a_deletion_means_are_refused(flag: str) -> None:
    with pytest.raises(UnsupportedByEmbeddedError, match="the pulumi CLI does"):
        resource_from_doc({"urn": URN, "type": "t", flag: True})


def test_fields_that_nobody_knows_are_kept() -> None:
    doc = {"urn": URN, "type": "t", "custom": True, "taint": True}
    assert resource_to_doc(resource_from_doc(doc), NoVault()) == doc


def test_pending_operations_are_read() -> None:
    deployment = deployment_from_doc(
        {"pending_operations": [{"type": "creating", "resource": {"urn": URN, "type": "t", "custom": True}}]}
    )
    assert [(op.kind, op.resource.urn) for op in deployment.pending] == [("creating", URN)]
