import random
import string

import pytest

from hermesops.errors import UsageError
from hermesops.model.providers.choice import LONGEST_KEY, address_of, choose, completed, from_values
from hermesops.model.providers.provider import ModelProvider
from hermesops.model.providers.table import BY_ID, CUSTOM, FOREIGN_SIGN_INS, PROVIDERS
from hermesops.wire.model_endpoint import API_MODES
from tests.support.users.model_provider import OWN_ADDRESSES, choice_of, key_for

OPENAI, OPENROUTER, ANTHROPIC = BY_ID["openai"], BY_ID["openrouter"], BY_ID["anthropic"]
CUSTOM_ROW, AZURE = BY_ID[CUSTOM], BY_ID["azure"]


@pytest.mark.parametrize("facts", PROVIDERS, ids=lambda facts: facts.id)
def test_each_provider_takes_its_own_key_and_model(facts: ModelProvider) -> None:
    choice = choice_of(facts)
    assert choice.address == (facts.base_url or OWN_ADDRESSES[facts.id])
    assert choice.address.startswith("https://")
    assert facts.api_mode in API_MODES
    assert key_for(facts) not in repr(choice)
    assert from_values(vars(choice)) == choice


def test_no_two_providers_have_an_id_or_a_mark_in_common() -> None:
    assert len(BY_ID) == len(PROVIDERS)
    marks = [mark for facts in PROVIDERS for mark in facts.marks]
    assert len(set(marks)) == len(marks)
    for facts in PROVIDERS:
        assert all(mark.startswith(facts.keys) or facts.keys[0].startswith(mark) for mark in facts.marks)


@pytest.mark.parametrize("facts", PROVIDERS, ids=lambda facts: facts.id)
def test_a_key_of_another_provider_is_refused_and_says_which_one_it_is_of(facts: ModelProvider) -> None:
    for other in PROVIDERS:
        if other.marks and other is not facts:
            with pytest.raises(UsageError, match=f"choose {other.id}") as refused:
                choice_of(facts, key=f"{other.marks[0]}0123456789abcdef")
            assert "0123456789abcdef" not in refused.value.message


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("sk-ant-oat01-0123456789abcdef", "a token of Claude's sign-in"),
        ("sk-ant-admin01-0123456789abcdef", "an administrator's key"),
        ("ghp_0123456789abcdef", "a token of GitHub"),
        (f"AKIA{16 * 'A'}", "a key of AWS"),
        ("hm1.i.1.0123456789abcdef", "a token of this platform"),
    ],
)
def test_a_secret_that_is_no_key_of_models_is_sent_to_nobody(key: str, words: str) -> None:
    for facts in PROVIDERS:
        with pytest.raises(UsageError, match=words):
            choice_of(facts, key=key)


HOSTILE_KEYS = (
    "",
    "short",
    "sk-proj-0123456789abcdef\n",
    "sk-proj-0123456789abcdef\r\nx-other: 1",
    "sk-proj-0123456789 abcdef",
    "sk-proj-0123456789'abcdef",
    "sk-proj-0123456789abcdef\0",
    "sk-proj-0123456789abcdéf",
    "sk-proj-${HOME}0123456789",
    "sk-proj-" + "k" * LONGEST_KEY,
    "\u200bsk-proj-0123456789abcdef",
)


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_a_key_that_no_file_or_header_holds_is_refused_without_being_repeated(key: str) -> None:
    with pytest.raises(UsageError) as refused:
        choose("openai", model="gpt-5.2", key=key)
    assert not key or key not in refused.value.message


@pytest.mark.parametrize(
    ("provider", "model", "words"),
    [
        ("openai", "claude-sonnet-4-5", "choose anthropic"),
        ("openai", "openai/gpt-5.2", "without openai/"),
        ("anthropic", "gpt-5.2", "choose openai"),
        ("anthropic", "anthropic/claude-sonnet-4-5", "without anthropic/"),
        ("deepseek", "gemini-2.5-pro", "choose gemini"),
        ("openrouter", "claude-sonnet-4.5", "VENDOR/NAME"),
        ("huggingface", "gpt2", "VENDOR/NAME"),
        ("openai", "", "name a model"),
        ("openai", "gpt-5.2 please", "name a model"),
        ("openai", "gpt-5.2\n", "name a model"),
        ("openai", "g" * 129, "name a model"),
        ("openai", '{"a":1}', "name a model"),
    ],
)
def test_a_model_of_another_provider_or_form_is_refused_with_what_to_do(provider: str, model: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        choice_of(BY_ID[provider], model=model)
    assert refused.value.field == "model"


HOSTILE_ADDRESSES = (
    "",
    "http://models.example.org/v1",
    "https://models.example.org:8443/v1",
    f"https://user:{8 * 'p'}@models.example.org/v1",
    "https://models.example.org/v1?key=1",
    "https://models.example.org/v1?",
    "https://models.example.org/v1#a",
    "https://models.example.org/../admin",
    "https://models.example.org/%2e%2e/admin",
    "https://models.example.org/v1\n",
    "https://mod\tels.example.org/v1",
    "https://127.0.0.1/v1",
    "https://[::1]/v1",
    "https://2130706433/v1",
    "https://0x7f.1/v1",
    "https://localhost/v1",
    "https://router.local/v1",
    "https://registry.internal/v1",
    "https://169.254.169.254/latest",
    "https://models.example.org./v1",
    "https://mödels.example.org/v1",
    "https://" + "a" * 260 + ".example.org/v1",
    "ftp://models.example.org",
    "//models.example.org/v1",
    "https://",
    "https://[models.example.org/v1",
)


@pytest.mark.parametrize("address", HOSTILE_ADDRESSES)
def test_an_address_that_is_none_of_the_internet_by_https_is_refused(address: str) -> None:
    with pytest.raises(UsageError) as refused:
        address_of(CUSTOM_ROW, address)
    assert refused.value.field == "base_url"


def test_an_address_has_one_form() -> None:
    assert address_of(CUSTOM_ROW, "HTTPS://Models.Example.org:443/v1/") == "https://models.example.org/v1"
    assert address_of(CUSTOM_ROW, "https://models.example.org") == "https://models.example.org"


def test_an_address_of_a_provider_in_the_table_is_refused_with_its_id() -> None:
    for facts in PROVIDERS:
        if facts.base_url:
            with pytest.raises(UsageError, match="choose "):
                address_of(CUSTOM_ROW, facts.base_url)
    with pytest.raises(UsageError, match="choose azure"):
        address_of(CUSTOM_ROW, "https://mine.openai.azure.com/openai/v1")
    with pytest.raises(UsageError, match="end with"):
        address_of(AZURE, "https://models.example.org/v1")


def test_a_provider_with_an_address_of_its_own_takes_no_other_one() -> None:
    assert choice_of(OPENAI, base_url="https://api.openai.com/v1/").base_url == ""
    with pytest.raises(UsageError, match="leave yours out"):
        choice_of(OPENAI, base_url="https://models.example.org/v1")


def test_who_signs_in_otherwise_is_told_what_to_use_instead() -> None:
    for foreign in FOREIGN_SIGN_INS:
        with pytest.raises(UsageError, match="cannot be used"):
            choose(foreign.agent_id, model="m", key="k" * 20)
    with pytest.raises(UsageError, match="it is called openai here"):
        choose("openai-api", model="gpt-5.2", key="sk-proj-0123456789abcdef")
    with pytest.raises(UsageError, match=r"there is no such model provider$"):
        choose("nobody", model="m", key="k" * 20)


def test_another_model_keeps_the_key_and_another_address_does_not() -> None:
    before = choice_of(CUSTOM_ROW)
    after = completed(before, CUSTOM, model="other")
    assert (after.model, after.key, after.base_url) == ("other", before.key, before.base_url)
    other_key = completed(before, CUSTOM, model="", key="another-key-of-it")
    assert (other_key.model, other_key.key, other_key.base_url) == (before.model, "another-key-of-it", before.base_url)
    for provider, address in ((CUSTOM, "https://other.example.org/v1"), ("openai", "")):
        with pytest.raises(UsageError, match="give the key"):
            completed(before, provider, model="gpt-5.2", base_url=address)
    with pytest.raises(UsageError, match="give the key"):
        completed(None, "openai", model="gpt-5.2")


def test_whatever_is_written_is_chosen_or_refused() -> None:
    letters = string.printable + "éßЖ\u200b\u202e\U0001f600"
    words = random.Random(116)  # noqa: S311 - the same texts in each run
    for _ in range(3_000):
        model, key, address = ("".join(words.choices(letters, k=words.randrange(40))) for _ in range(3))
        facts = words.choice(PROVIDERS)
        try:
            choice = choose(facts.id, model=model, key=(facts.keys or ("",))[0] + key, base_url=address)
        except UsageError:
            continue
        assert choice.address.startswith("https://")
