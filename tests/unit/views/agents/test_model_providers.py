import json
from dataclasses import replace

from hermesops.cli.views.instance.model_provider import provider_lines
from hermesops.cli.views.instance.settings import settings_lines
from hermesops.model.providers.table import BY_ID, CUSTOM, PROVIDERS
from hermesops.views.agents import instances as instance_shapes
from hermesops.views.agents import model_providers as shapes
from tests.support.users.model_provider import choice_of


def test_the_list_has_each_provider_with_what_its_keys_begin_with() -> None:
    offered = {row["id"]: row for row in shapes.offered()}
    assert list(offered) == [facts.id for facts in PROVIDERS]
    assert offered["gemini"]["key"] == "AIza… or AQ.…"
    assert (offered[CUSTOM]["address"], offered[CUSTOM]["key"]) == (None, None)
    assert offered["azure"]["hosts"][0] == ".openai.azure.com"  # type: ignore[index]
    assert all(row["why"] and row["instead"] for row in shapes.not_offered())


def test_an_agents_own_provider_is_shown_without_its_key() -> None:
    choice = choice_of(BY_ID["openai"])
    shape = {
        "id": "openai",
        "title": "OpenAI",
        "model": "gpt-5.2",
        "address": "https://api.openai.com/v1",
        "state": "unknown",
        "verified_at": None,
    }
    verified = shapes.chosen(replace(choice, verified_at="2026-01-02T03:04:05+00:00"))
    assert (verified["state"], verified["verified_at"]) == ("accepted", "2026-01-02T03:04:05+00:00")
    gone = shapes.chosen(replace(choice, provider="gone", base_url="https://models.example.org/v1"))
    assert (gone["title"], gone["address"]) == ("gone", "https://models.example.org/v1"), "a row that the table lost"
    assert shapes.of_instance("ada", choice, "") == {"user": "ada", "provider": shape, "outcome": None}
    assert shapes.of_instance("ada", None, "done") == {"user": "ada", "provider": None, "outcome": "done"}
    lines = provider_lines(choice)
    assert "the key is set" in lines[-1]
    assert choice.key not in json.dumps([shape, *lines])
    assert provider_lines(None) == ["the platform's models: the user has no model provider of their own"]


def test_settings_say_who_answers_in_the_place_of_the_route() -> None:
    route = instance_shapes.route("gpt-4o", choice_of(BY_ID["openai"]))
    assert route == {
        "model": "gpt-5.2",
        "is_default": False,
        "provider": "openai",
        "provider_model": "gpt-5.2",
        "own_key": True,
    }
    [*_, line] = settings_lines({"model": "gpt-4o"}, route)
    assert line == "# the user's own provider answers: gpt-5.2 of openai; model does not count"
