"""What is asked of hermes-node about releases, and what is made of its answers."""

import json
from dataclasses import dataclass, field
from typing import cast

import pytest

from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.errors import RefusedError, UnavailableError
from hermesops.machines.release.releases import HandedOut
from hermesops.model.fleet.slot import BLOBS, RollbackResult
from hermesops.model.ids import MachineId
from hermesops.model.rollout.release import ReleaseId
from hermesops.vendor.channel import Channel, Completed
from tests.support.fakes.parts import part

MACHINE = MachineId("m")


@dataclass
class Node:
    """Answers each command alike, but for those that begin with some words."""

    exit_code: int = 0
    answer: dict[str, object] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    answers: dict[str, Completed] = field(default_factory=dict)
    lacks: list[str] = field(default_factory=list)
    brought: list[tuple[str, bytes]] = field(default_factory=list)

    async def put(self, path: str, data: bytes, *, mode: int) -> None:
        assert mode == 0o600
        if path.startswith(BLOBS):
            self.brought.append((path, data))

    async def run(self, command: str, *, timeout_s: float) -> Completed:
        del timeout_s
        words = command.partition("hermes-node ")[2]
        self.asked.append(words)
        if words.startswith("release fetch") and self.lacks:
            missing = [{"sha256": self.lacks.pop(0)}]
            return Completed(7, json.dumps({"missing": missing}).encode(), b"hermes-node: lacks files")
        for begin, answer in self.answers.items():
            if words.startswith(begin):
                return answer
        return Completed(self.exit_code, json.dumps(self.answer).encode(), b"hermes-node: no")

    def slots(self) -> ReleaseClient:
        return ReleaseClient(lambda _: cast("Channel", self))


async def test_a_machine_is_left_with_the_slots_that_somebody_may_go_back_to() -> None:
    node = Node()
    await node.slots().tidy(MACHINE)
    assert node.asked == ["release gc --keep 3"]


async def test_a_machine_that_does_not_tidy_says_why() -> None:
    with pytest.raises(RefusedError, match="release gc: no"):
        await Node(exit_code=3, answer={"error": "no"}).slots().tidy(MACHINE)


async def test_a_change_is_cancelled_under_no_lease_as_whoever_makes_it_has_that() -> None:
    node = Node()
    await node.slots().cancel(MACHINE)
    assert node.asked == ["release cancel"]
    with pytest.raises(RefusedError, match="release cancel: no"):
        await Node(exit_code=2).slots().cancel(MACHINE)  # one that is older than the word


class Bundled(HandedOut):
    """A release whose files are their own names."""

    def handout(self, python: str) -> bytes:
        return python.encode()

    def blob(self, sha256: str) -> bytes:
        return sha256.encode()


NEW = Bundled(ReleaseId("2.0-b"), part())


async def test_a_machine_is_brought_the_files_that_it_lacks() -> None:
    node = Node(lacks=["aa", "bb"])
    await node.slots().fetch(MACHINE, NEW, python="3.11")
    assert node.brought == [(f"{BLOBS}/aa", b"aa"), (f"{BLOBS}/bb", b"bb")]
    assert len(node.asked) == 3


async def test_a_machine_that_lacks_what_it_was_brought_is_not_brought_it_for_ever() -> None:
    node = Node(lacks=["aa"] * 9)
    with pytest.raises(UnavailableError, match=r"lacks files of release 2\.0-b that were uploaded 3 times"):
        await node.slots().fetch(MACHINE, NEW, python="3.11")
    assert node.brought == [(f"{BLOBS}/aa", b"aa")] * 3


async def test_a_machine_that_is_nobodys_stays_on_what_it_is_brought() -> None:
    node = Node()
    await node.slots().deploy(MACHINE, NEW, python="3.11")
    assert [words.partition(" /")[0] for words in node.asked] == [
        "release fetch",
        "release activate 2.0-b --confirm-within 60 --drain 10",
        "release confirm 2.0-b",
    ]


async def test_what_does_not_run_there_is_not_confirmed() -> None:
    node = Node(answers={"release activate": Completed(8, b'{"error": "no", "stage": "checks"}', b"")})
    assert (await node.slots().deploy(MACHINE, NEW, python="3.11")).problem == "no"
    assert not any("confirm 2.0-b" in words for words in node.asked)


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (Node(answer={"checks": [{"name": "state", "ok": True, "detail": "1 session read"}]}), ""),
        (Node(answer={"checks": []}), ""),
        (Node(answer={"checks": [{"name": "tools", "ok": False, "detail": "200: ok"}]}), "tools: 200: ok"),
        (Node(exit_code=2, answer={"error": "invalid choice"}), ""),
    ],
    ids=["well", "none runs", "unwell", "older hermes-node"],
)
async def test_what_an_agent_fails_before_a_change_is_said(node: Node, problem: str) -> None:
    assert await node.slots().problem_of_agent(MACHINE) == problem
    assert node.asked == ["release ready"]


async def test_checks_of_another_shape_are_no_answer() -> None:
    with pytest.raises(UnavailableError, match="release ready"):
        await Node(answer={"checks": [7]}).slots().problem_of_agent(MACHINE)


async def _previewed(node: Node) -> RollbackResult:
    return await node.slots().preview_activation(MACHINE, 33, timeout_s=15)


async def test_a_preview_of_an_older_release_names_the_settings_that_would_be_lost() -> None:
    node = Node(answer={"release": "", "from": "r2", "settings_lost": ["model", "x\n\x1b[31mred"]})
    preview = await _previewed(node)
    assert node.asked == ["release preview --schema 33"]
    assert (preview.before, preview.settings_lost[0], len(preview.settings_lost)) == ("r2", "model", 2)
    assert preview.settings_lost[1].isprintable()
    with pytest.raises(RefusedError, match="its hermes-node is older than this preview"):
        await _previewed(Node(exit_code=2))


@pytest.mark.parametrize("lost", [{}, {"settings_lost": None}, {"settings_lost": "model"}, {"settings_lost": {}}])
async def test_a_preview_that_names_no_settings_does_not_mean_that_none_are_lost(lost: dict[str, object]) -> None:
    with pytest.raises(UnavailableError, match="malformed answer to release preview"):
        await _previewed(Node(answer={"release": "", "from": "r2", **lost}))
