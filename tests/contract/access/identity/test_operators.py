"""Who acts: a name, an SSH key that proves it is there, a pipeline's token; and nobody where proof is asked for."""

import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from hermesops.access.identity import operators
from hermesops.access.identity.current_operator import who_acts
from hermesops.access.identity.oidc import Pipelines
from hermesops.access.identity.oidc_requests import published_keys
from hermesops.access.identity.signatures import Signers
from hermesops.access.registry_place import RegistryPlace
from hermesops.errors import RefusedError, UnavailableError
from hermesops.settings.environment import Environment
from tests.support.pipelines.issuer import URL, job_issuer

ISSUER = "https://token.example.org"
SUBJECT = "repo:helium/hermes:ref:refs/heads/main"


def key_of(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True, timeout=30)
    return folder / name


def line_of(identity: str, key: Path, *, namespaces: str = "hermesops-*") -> str:
    return f'{identity} namespaces="{namespaces}" {key.with_suffix(".pub").read_text()}'


@pytest.fixture
def signers(tmp_path: Path) -> Signers:
    key = key_of(tmp_path, "ada")
    (tmp_path / "allowed").write_text(line_of("ada@example.org", key))
    return Signers(key, tmp_path / "allowed")


def environment(home: Path, **settings: str) -> Environment:
    variables = {f"HERMESOPS_{name.upper()}": value for name, value in settings.items()}
    return Environment.load("staging", {"HOME": str(home), "HERMESOPS_HOME": str(home), **variables})


def test_a_name_is_no_proof_and_does_not_look_like_one() -> None:
    assert operators.named("ada", "laptop") == "ada@laptop"
    assert operators.named("ada@ssh:laptop", "x:y") == "ada_ssh_laptop@x_y"


def test_a_key_proves_who_holds_it(signers: Signers) -> None:
    assert operators.by_key(signers, "laptop") == "ada@example.org@ssh:laptop"


def test_a_strangers_key_and_one_for_other_things_prove_nothing(signers: Signers, tmp_path: Path) -> None:
    stranger = key_of(tmp_path, "eve")
    with pytest.raises(RefusedError, match="by no signer"):
        operators.by_key(Signers(stranger, signers.allowed), "laptop")
    assert signers.key
    (tmp_path / "allowed").write_text(line_of("ada@example.org", signers.key, namespaces="hermesops-preview"))
    with pytest.raises(RefusedError, match="does not hold"):
        operators.by_key(signers, "laptop")


class Issuer:
    """Signs tokens as a pipeline's host does."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())

    def keys(self) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [{**public, "kid": "one", "alg": "ES256", "use": "sig"}]}

    def token(self, **other: object) -> str:
        now = datetime.now(UTC)
        claims = {
            "iss": ISSUER,
            "aud": "hermesops",
            "sub": SUBJECT,
            "iat": now,
            "exp": now + timedelta(minutes=5),
        }
        given = {name: value for name, value in {**claims, **other}.items() if value is not None}
        return jwt.encode(given, self._key, algorithm="ES256", headers={"kid": "one"})


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


def pipelines(issuer: Issuer, *subjects: str) -> Pipelines:
    return Pipelines(ISSUER, "hermesops", subjects or ("repo:helium/hermes:ref:refs/heads/ma?n",), issuer.keys)


def test_a_pipelines_token_proves_which_it_is(issuer: Issuer) -> None:
    assert operators.by_token(pipelines(issuer), issuer.token(), "runner") == f"{SUBJECT}@oidc:runner"


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"iss": "https://elsewhere.example.org"}, "issuer"),
        ({"aud": "another"}, "[Aa]udience"),
        ({"exp": datetime(2020, 1, 1, tzinfo=UTC)}, "expired"),
        ({"exp": None}, "exp"),
        ({"sub": None}, "sub"),
        ({"sub": "repo:helium/hermes:pull_request"}, "may not act"),
        ({"sub": "repo:stranger/hermes:ref:refs/heads/main"}, "may not act"),
    ],
)
def test_a_token_that_says_something_else_is_refused(issuer: Issuer, claims: dict[str, Any], says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        pipelines(issuer).subject_of(issuer.token(**claims))


def test_where_a_pattern_lets_unreviewed_code_act_nobody_acts(issuer: Issuer) -> None:
    """A token of main itself as well: else nobody would notice before a pull request does."""
    for pattern in ("repo:helium/hermes:*", "repo:helium/hermes:ref:refs/heads/*", "*"):
        with pytest.raises(RefusedError, match="matches unreviewed code"):
            pipelines(issuer, SUBJECT, pattern).subject_of(issuer.token())


def test_a_token_of_another_key_or_of_none_is_refused(issuer: Issuer) -> None:
    own = pipelines(issuer)
    for forged in (
        Issuer().token(),
        jwt.encode({"sub": SUBJECT}, key="", algorithm="none"),
        jwt.encode({"sub": SUBJECT}, key="both sides know it" * 2, algorithm="HS256", headers={"kid": "one"}),
        "no token",
        "",
    ):
        with pytest.raises(RefusedError, match="is not valid"):
            own.subject_of(forged)


def test_no_pipeline_acts_where_none_is_named(issuer: Issuer) -> None:
    with pytest.raises(RefusedError, match="no pipeline may act"):
        Pipelines(ISSUER, "hermesops", (), issuer.keys).subject_of(issuer.token())


def test_an_issuer_that_does_not_answer_is_no_refusal() -> None:
    with pytest.raises(UnavailableError, match="does not publish its keys"):
        published_keys("https://127.0.0.1:9")()


def test_settings_say_whose_word_counts(signers: Signers, issuer: Issuer, tmp_path: Path) -> None:
    assert ":" not in who_acts(environment(tmp_path))
    with pytest.raises(RefusedError, match="proved by a key or a token"):
        who_acts(environment(tmp_path, operators="verified"))
    by_key = environment(
        tmp_path, operators="verified", operator_key=str(signers.key), allowed_signers=str(signers.allowed)
    )
    assert who_acts(by_key).startswith("ada@example.org@ssh:")
    (tmp_path / "token").write_text(f"{issuer.token()}\n")
    (tmp_path / "keys.json").write_text(json.dumps(issuer.keys()))
    pipeline = environment(
        tmp_path,
        operators="verified",
        oidc_token_file=str(tmp_path / "token"),
        oidc_issuer=ISSUER,
        oidc_audience="hermesops",
        oidc_subjects=f"repo:helium/other:environment:*-apply, {SUBJECT}",
        oidc_keys_file=str(tmp_path / "keys.json"),
    )
    with pytest.raises(RefusedError, match="may be read by others") as refused:
        who_acts(pipeline)
    assert str(refused.value.hint) == f"chmod 600 {tmp_path / 'token'}"
    (tmp_path / "token").chmod(0o600)
    assert who_acts(pipeline).startswith(f"{SUBJECT}@oidc:")


def test_without_proof_everything_is_read_and_nothing_is_written(signers: Signers, tmp_path: Path) -> None:
    RegistryPlace(environment(tmp_path), lambda *_, **__: None).open().close()
    unproved = RegistryPlace(environment(tmp_path, operators="verified"), lambda *_, **__: None).open()
    assert unproved.audit.list() == ()
    with pytest.raises(RefusedError, match="proved by a key or a token"):
        unproved.audit.append("chat_opened", "instance/x", why="test")
    assert unproved.audit.list() == ()
    unproved.close()
    settings = {"operators": "verified", "operator_key": str(signers.key), "allowed_signers": str(signers.allowed)}
    proved = RegistryPlace(environment(tmp_path, **settings), lambda *_, **__: None).open()
    proved.audit.append("chat_opened", "instance/x", why="test")
    assert [entry.who.partition("@ssh:")[0] for entry in proved.audit.list(who="ada")] == ["ada@example.org"]
    proved.close()


def test_a_job_of_github_proves_itself_by_a_token_that_is_made_when_it_is_needed(tmp_path: Path) -> None:
    with job_issuer(SUBJECT) as job:
        given = {
            "operators": "verified",
            "oidc_issuer": URL,
            "oidc_audience": "hermesops",
            "oidc_subjects": SUBJECT,
            "oidc_keys_file": str(job.write_keys(tmp_path / "keys.json")),
        }
        env = environment(tmp_path, **given)
        in_a_job = replace(env, variables={**env.variables, **job.variables()})
        assert who_acts(in_a_job).startswith(f"{SUBJECT}@oidc:")
        assert who_acts(in_a_job).startswith(f"{SUBJECT}@oidc:")
        assert job.audiences == ["hermesops", "hermesops"]

        without_right = replace(in_a_job, variables={**in_a_job.variables, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "other"})
        with pytest.raises(UnavailableError, match="gets no identity token") as refused:
            who_acts(without_right)
        assert "id-token: write" in str(refused.value.hint)


def test_a_token_is_not_asked_for_in_the_clear(tmp_path: Path) -> None:
    env = environment(tmp_path, operators="verified", oidc_issuer=URL, oidc_audience="a", oidc_subjects="b")
    ci_env = replace(env, variables={**env.variables, "ACTIONS_ID_TOKEN_REQUEST_URL": "http://tokens.example.org/"})
    with pytest.raises(RefusedError, match="ACTIONS_ID_TOKEN_REQUEST_URL: it is not encrypted"):
        who_acts(ci_env)
