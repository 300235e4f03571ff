"""The tables of model providers in ``runbooks/own-model-providers.md``, from the tables in the code."""

from hermesops.model.providers.provider import CHAT, KeyCheck, ModelProvider
from hermesops.model.providers.table import FOREIGN_SIGN_INS, PROVIDERS

_FORM = {CHAT: "chat completions"}
_CHECKED_BY = {
    KeyCheck.MODELS: "its list of models",
    KeyCheck.KEY: "its description of the key",
    KeyCheck.TURN: "an answer of 16 tokens",
}


def offered() -> str:
    """The providers whose keys users may bring."""
    head = "| id | provider | address | requests | keys begin with | checked by | a model |"
    return f"{head}\n{'|---' * 7}|\n{''.join(map(_row, PROVIDERS))}"


def _row(facts: ModelProvider) -> str:
    address = facts.base_url or " or ".join(f"`https://…{host}`" for host in facts.hosts) or "of the internet, by https"
    cells = (
        f"`{facts.id}`",
        facts.title,
        f"`{address}`" if facts.base_url else address,
        _FORM.get(facts.api_mode, "responses"),
        " or ".join(f"`{beginning}`" for beginning in facts.keys) or "anything",
        _CHECKED_BY[facts.check],
        f"`{facts.example}`",
    )
    return f"| {' | '.join(cells)} |\n"


def not_offered() -> str:
    """The providers that no key opens."""
    head = "| hermes-agent's name | provider | why not | instead |\n|---|---|---|---|\n"
    return head + "".join(
        f"| `{row.agent_id}` | {row.title} | {row.why} | {row.instead} |\n" for row in FOREIGN_SIGN_INS
    )
