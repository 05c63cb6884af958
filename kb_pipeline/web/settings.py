"""What a server of the review pages is told at its start.

Belongs here: who may do what. Reading is open on the loopback, to this machine alone; changing anything takes the token, and
on any other address reading takes it too.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from pathlib import Path

TOKEN_VARIABLE = "KB_SERVE_TOKEN"  # noqa: S105 - the name of a variable
_MIN_TOKEN_CHARS = 16


@dataclass(frozen=True)
class Settings:
    """Where and for whom the pages are served.

    Attributes:
        host: address that the server listens on.
        port: its port.
        token: whoever shows it may change things.
        actor: who answers, unless an answer says so itself.
        policy_file: a policy file of one's own, else what KB_POLICY names.
        names: further names under which browsers reach the server.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    actor: str = "reviewer"
    policy_file: Path | None = None
    names: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def own_names(self) -> frozenset[str]:
        """Names that a request may be addressed to."""
        return frozenset({"127.0.0.1", "localhost", "::1", self.host.lower(), *(name.lower() for name in self.names)})

    def proof(self, purpose: str) -> str:
        """What a browser holds instead of the token: of no use for any other purpose, or after the next start."""
        return hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).hexdigest()

    def is_token(self, shown: str) -> bool:
        """Whether this is the token; takes as long for a wrong one."""
        return hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), self.token.encode())

    def is_proof(self, purpose: str, shown: str) -> bool:
        """Whether this is the proof of a purpose."""
        return hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), self.proof(purpose).encode())


def is_long_enough(token: str) -> bool:
    """Whether a token of one's own is long enough not to be guessed."""
    return len(token) >= _MIN_TOKEN_CHARS
