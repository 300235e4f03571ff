"""GitHub's issuer of tokens, as a job meets it: a URL that hands out tokens of who the job is, for an audience."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

URL = "https://token.actions.githubusercontent.com"
BEARER = "bearer-of-this-job"


@dataclass
class JobIssuer:
    """Hands out tokens to one job.

    Attributes:
        subject: Of whom tokens speak.
        audiences: For whom each was asked.
    """

    subject: str
    address: str = ""
    audiences: list[str] = field(default_factory=list)
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def write_keys(self, file: Path) -> Path:
        """What the issuer publishes, as a file."""
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        file.write_text(json.dumps({"keys": [{**public, "kid": "one", "alg": "ES256", "use": "sig"}]}))
        return file

    def token(self, audience: str) -> str:
        self.audiences.append(audience)
        now = datetime.now(UTC)
        claims = {"iss": URL, "aud": audience, "sub": self.subject, "iat": now, "exp": now + timedelta(minutes=5)}
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": "one"})

    def variables(self) -> dict[str, str]:
        """What a job with ``id-token: write`` has."""
        return {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.address}/?api-version=2",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": BEARER,
        }


@contextmanager
def job_issuer(subject: str) -> Iterator[JobIssuer]:
    issuer = JobIssuer(subject)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parameters = parse_qs(urlsplit(self.path).query)
            is_let_in = self.headers["Authorization"] == f"Bearer {BEARER}" and parameters["api-version"] == ["2"]
            self.send_response(HTTPStatus.OK if is_let_in else HTTPStatus.FORBIDDEN)
            self.end_headers()
            self.wfile.write(
                json.dumps({"value": issuer.token(parameters["audience"][0])} if is_let_in else {}).encode()
            )

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        issuer.address = f"http://127.0.0.1:{server.server_port}"
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
