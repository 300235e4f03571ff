"""A rollout's approval, signed by a real key, checked again against rows that somebody altered meanwhile."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from hermesops.access.identity.approval import FILE, Approval
from hermesops.access.identity.signatures import Signers
from hermesops.agents.cells.changes.approvals import Approvals
from hermesops.agents.rollout.operators.service import asked_for, check_approval
from hermesops.agents.rollout.ports import ApprovalState, Records
from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import OperatorDecisions, Rollout
from hermesops.model.rollout.release import ReleaseId
from hermesops.settings.environment import Environment
from tests.support.fakes.instances import ADA
from tests.support.rollouts.rows import ROLLOUT, STARTED, target_of

STAGES = 2
BOB, EVE = (InstanceId(str(UUID(int=number))) for number in (1, 2))


class Place:
    """An environment with two operators, and a rollout that one of them started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("ada", "bob"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True, timeout=30)
        self.allow("ada", "bob")
        self.records = self.started("ada@example.org@ssh:laptop")

    def allow(self, *names: str) -> None:
        lines = (
            f'{name}@example.org namespaces="hermesops-*" {(self.folder / name).with_suffix(".pub").read_text()}'
            for name in names
        )
        (self.folder / "allowed").write_text("".join(lines))

    def env(self, who: str = "bob", **more: str) -> Environment:
        settings = {
            "operators": "verified",
            "approvals": "required",
            "operator_key": str(self.folder / who),
            "allowed_signers": str(self.folder / "allowed"),
            **more,
        }
        variables = {f"HERMESOPS_{name.upper()}": value for name, value in settings.items() if value}
        return Environment.load("staging", {"HOME": str(self.folder), "HERMESOPS_HOME": str(self.folder), **variables})

    def started(self, who: str) -> Records:
        event = replace(STARTED, event=replace(STARTED.event, who=who))
        targets = (target_of(ADA), target_of(BOB, 1, stage=1))
        return Records(ROLLOUT, targets, (event,))

    def approved(self, who: str = "bob") -> Records:
        approval_request = asked_for(self.records, STAGES, "staging")
        text, _ = Approvals(self.env(who)).sign(approval_request)
        return self.keeping(text)

    def keeping(self, text: str, stage: int = STAGES) -> Records:
        rollout: Rollout = replace(self.records.rollout, decisions=OperatorDecisions(approved=stage, approval=text))
        return replace(self.records, rollout=rollout)

    async def check(self, records: Records, **more: str) -> ApprovalState:
        return await check_approval(self.env(**more), records)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_what_another_operator_signed_covers_the_stages_of_which_it_says_so(place: Place) -> None:
    assert await place.check(place.records) == ApprovalState(limit=60)
    assert await place.check(place.approved(), two_person_above="20") == ApprovalState(STAGES, limit=20)


@pytest.mark.parametrize(
    "altered",
    [
        "a target more",
        "a target in an earlier stage",
        "another release",
        "another way",
        "more stages",
        "a starter",
    ],
)
async def test_rows_that_were_altered_since_are_refused(place: Place, altered: str) -> None:
    kept = place.approved()
    changed = {
        "a target more": replace(kept, targets=(*kept.targets, target_of(EVE, 2, stage=1))),
        "a target in an earlier stage": replace(kept, targets=(kept.targets[0], replace(kept.targets[1], stage=0))),
        "another release": replace(kept, rollout=replace(kept.rollout, release=ReleaseId("0.20.0-0123456789ab"))),
        "another way": replace(kept, rollout=replace(kept.rollout, spec=replace(kept.rollout.spec, soak_s=0))),
        "more stages": place.keeping(kept.rollout.decisions.approval, STAGES + 1),
        "a starter": replace(place.started("eve@example.org@ssh:laptop"), rollout=kept.rollout),
    }[altered]
    state = await place.check(changed)
    assert state.stages == 0
    assert "the approval is for another stage 2 of rollout r1" in state.objection


async def test_a_target_of_a_later_stage_was_not_signed_for(place: Place) -> None:
    kept = place.approved()
    assert (await place.check(replace(kept, targets=(*kept.targets, target_of(EVE, 2, stage=2))))).stages == STAGES


@pytest.mark.parametrize(
    "started_by",
    [
        "bob@example.org@ssh:laptop",
        "BOB@Example.org@ssh:laptop",
        "bob@laptop",
        "Bob@bobs-desktop",
        "bob@example.org@oidc:ci",
    ],
)
async def test_nobody_approves_their_own_by_any_spelling(place: Place, started_by: str) -> None:
    place.records = place.started(started_by)
    with pytest.raises(RefusedError, match="cannot approve it"):
        place.approved()
    # Signed without asking us whether it may be.
    approval = Approval(asked_for(place.records, STAGES, "staging"), datetime.now(UTC))
    state = await place.check(place.keeping(Signers(place.folder / "bob").sign_file(FILE, approval)))
    assert (state.stages, "cannot approve it" in state.objection) == (0, True)


@pytest.mark.parametrize("text", ["", "nonsense", "{}"])
async def test_a_row_that_says_approved_without_a_signature_is_refused(place: Place, text: str) -> None:
    state = await place.check(place.keeping(text))
    assert (state.stages, "not an approval" in state.objection) == (0, True)


async def test_who_counts_no_more_has_approved_nothing(place: Place) -> None:
    kept = place.approved()
    place.allow("ada")
    state = await place.check(kept)
    assert (state.stages, "by no signer that" in state.objection) == (0, True)


async def test_another_kind_of_signature_is_no_approval(place: Place) -> None:
    approval = Approval(asked_for(place.records, STAGES, "staging"), datetime.now(UTC))
    signature = Signers(place.folder / "bob").sign(approval.to_bytes(), namespace="hermesops-release")
    state = await place.check(place.keeping(FILE.to_text(approval, signature)))
    assert (state.stages, "does not hold" in state.objection) == (0, True)


async def test_an_approval_that_grew_old_lapses_and_is_no_fault(place: Place) -> None:
    approval = Approval(asked_for(place.records, STAGES, "staging"), datetime.now(UTC) - timedelta(hours=25))
    state = await place.check(place.keeping(Signers(place.folder / "bob").sign_file(FILE, approval)))
    assert (state.stages, state.objection, "valid for 24 h" in state.expired) == (0, "", True)


async def test_a_computer_that_can_check_no_signature_waits_rather_than_halts(place: Place) -> None:
    state = await place.check(place.approved(), allowed_signers="")
    assert (state.stages, state.objection) == (0, "")
    assert "no allowed_signers is set" in state.expired
