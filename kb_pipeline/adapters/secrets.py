"""Finds credentials in texts, names their kind, and masks them (ledger M20, behaviour 24).

Belongs here: the choice of detectors and the tests that tell a credential from a placeholder. Does not belong here:
what happens to an entry that holds one (the stages decide), and any output of the credential itself: nothing in this
module returns, logs or raises it.

Detectors come from two sources:

* detect-secrets, by the regular expressions of its plugins for single vendors. Its scanner is not used: it reads files,
  keeps global settings, logs what it skips and lets a comment in the text switch it off. Left out are its entropy
  plugins (hashes and identifiers are everywhere in a knowledge base), public addresses (no secret), and its keyword,
  basic-auth, Slack, npm and OpenAI plugins, for which stricter or faster rules stand here;
* rules of our own: the shapes in ``secret_kinds``, passwords in addresses and on command lines, headers, assignments to
  something named like a credential, and prose.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kb_pipeline.adapters.secret_kinds import TOKENS

_PLUGINS: tuple[tuple[str, str], ...] = (
    ("artifactory", "ArtifactoryDetector"),
    ("aws", "AWSKeyDetector"),
    ("azure_storage_key", "AzureStorageKeyDetector"),
    ("cloudant", "CloudantDetector"),
    ("discord", "DiscordBotTokenDetector"),
    ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"),
    ("ibm_cloud_iam", "IbmCloudIamDetector"),
    ("ibm_cos_hmac", "IbmCosHmacDetector"),
    ("jwt", "JwtTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("private_key", "PrivateKeyDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("softlayer", "SoftlayerDetector"),
    ("square_oauth", "SquareOAuthDetector"),
    ("stripe", "StripeDetector"),
    ("telegram_token", "TelegramBotTokenDetector"),
    ("twilio", "TwilioKeyDetector"),
)

# These have short or letter-only values whose own fixtures look like placeholders.
_LENIENT = frozenset({"ArtifactoryDetector", "TwilioKeyDetector", "PrivateKeyDetector", "JwtTokenDetector"})

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_])(?:" + "|".join(f"(?P<t{i}>{e})" for i, e in enumerate(TOKENS.values())) + r")(?![A-Za-z0-9_#*])"
)
_TOKEN_KINDS = tuple(TOKENS)
_RUN = re.compile(r"[^\s\"'`<>(){}\[\],;]{18,}")
_VENDOR_HINT = re.compile(r"[\w+/=.:~-]{20}|AKC\w{10}|AP[0-9A-F]\w{8}|PRIVATE KEY|PuTTY")
"""What at least one of the plugins' credentials shows: most texts show nothing of it and are spared the plugins."""

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.*\Z)",
    re.DOTALL,
)
_URL_PASSWORD = re.compile(r"://[^\s:/?#\[\]@]{0,128}:(?P<value>[^\s/?#\[\]@]{3,256})@[\w.-]")
_COMMAND_PASSWORD = re.compile(
    r"\bcurl\b[^\n]{0,400}?\s(?:-u|--user|--proxy-user)[ =]?[\"']?(?P<user>[\w.@-]+):(?P<value>[^\s\"']{4,256})"
)
_ASSIGNMENT = re.compile(
    r"""(?P<name>(?:api[_-]?key|secret|token|passw(?:or)?d|passphrase|pwd|credential
        |(?:auth|access|private|account|service|master|encryption|signing)[_-]?key)[\w-]{0,24})
        ["'\]]{0,2} \s{0,3} (?:=>|:=|={1,3}|:) \s{0,3} (?P<quote>["'`]?) (?P<value>[^\s"'`,;<>(){}\[\]]{6,512})""",
    re.IGNORECASE | re.VERBOSE,
)
_NAME_FRONT = re.compile(r"[\w.-]+\Z")
_PROSE = re.compile(
    r"""\b(?P<name>passw(?:or)?d|passphrase|pwd|passcode|api\s?key|secret|token)\b [^.\n=:]{0,60}?
        \b(?:is|was|reads|equals)\b :? \s{1,3} ["'`]? (?P<value>[^\s"'`,;<>(){}\[\]]{6,128})""",
    re.IGNORECASE | re.VERBOSE,
)
_HEADER = re.compile(
    r"\b(?:bearer|basic|authorization:\s{0,2}\w{3,12})\s{1,3}(?P<value>[\w+/.~-]{20,2048}={0,2})", re.IGNORECASE
)
_CREDENTIAL_WORD = re.compile(r"key|secret|token|pass|pwd|credential|bearer|basic|authorization", re.IGNORECASE)

_PASSWORD_NAME = re.compile(r"passw|passphrase|pwd", re.IGNORECASE)
_MIN_ENTROPY_BITS = 3.3
"""Below this a value of 16 characters and more repeats itself too much to be made by a machine."""

_NO_SECRET_NAME = re.compile(
    r"public|(?:id|ids|name|names|length|size|count|type|version|file|path|url|uri)$", re.IGNORECASE
)
_MASKED = re.compile(r"([xX*#•])\1{4,}")
_REPEATED = re.compile(r"(.)\1{7,}")
_PLACEHOLDER = re.compile(
    r"example|sample|placeholder|dummy|change[_-]?me|redacted|insert|your|fake|replace|random|todo|\.\.\.|\$\{|\{\{|%\(",
    re.IGNORECASE,
)
_COMMON_PASSWORD = re.compile(
    r"(?:my|the|some|a|test|db|user|root|admin)?[_-]?(?:pass(?:word|wd|wort|phrase)?|pwd|secret|token|test|admin|root|user"
    r"|guest|postgres|mysql|redis|rabbitmq|foo|bar|foobar|string|none|null|true|false)[\d_-]{0,4}|[x*.]+|\d{1,6}",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"[A-Za-z_][\w-]*(?:(?:\.|::|->|/)[A-Za-z_][\w-]*)+"  # an attribute or a path
    r"|[\w.-]*/[\w./-]*"  # a path
    r"|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"  # a UUID
    r"|(?:sha\d+|md5)[-:=].*"  # a checksum
    r"|\$.*|@.*|%.*|-+.*|https?:.*",
    re.IGNORECASE,
)
_INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")

_PIECE_CHARS = 8_000
_OVERLAP_CHARS = 1_000
"""Long texts are searched piece by piece: some expressions of detect-secrets take quadratic time on hostile input."""

_TOKEN_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+=~!$%&#@:")


@dataclass(frozen=True, slots=True)
class _Finding:
    """A place in a text: the kind of secret and where it stands. Never the secret."""

    kind: str
    start: int
    end: int


def find_secrets(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Kinds of secret found in each text, sorted and without repeats; one tuple per text, same order."""
    return [tuple(sorted({finding.kind for finding in _findings(_visible(text))})) for text in texts]


def mask(text: str) -> str:
    """``text`` with every secret found in it replaced by ``[secret: kind]``, together with all that touches it.

    A text without a finding comes back unchanged.
    """
    visible = _visible(text)
    found = sorted(_findings(visible), key=lambda finding: (finding.start, finding.end, finding.kind))
    if not found:
        return text
    parts: list[str] = []
    done = 0
    for finding in found:
        if finding.start < done and finding.end <= done:
            continue
        start, end = _grown(visible, finding.start, finding.end)
        parts.extend((visible[done : max(done, start)], f"[secret: {finding.kind}]"))
        done = end
    parts.append(visible[done:])
    return "".join(parts)


def _visible(text: str) -> str:
    """``text`` without invisible characters, which could part a credential and hide it."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def _findings(text: str) -> Iterator[_Finding]:
    step = _PIECE_CHARS - _OVERLAP_CHARS
    for offset in range(0, max(1, len(text) - _OVERLAP_CHARS), step):
        piece = text[offset : offset + _PIECE_CHARS] if len(text) > _PIECE_CHARS else text
        for finding in _piece_findings(piece):
            yield _Finding(finding.kind, offset + finding.start, offset + finding.end)
        if piece is text:
            break
    for match in _PRIVATE_KEY.finditer(text) if "PRIVATE KEY" in text else ():
        yield _Finding("Private Key", match.start(), match.end())


def _piece_findings(piece: str) -> Iterator[_Finding]:
    if _VENDOR_HINT.search(piece):
        for kind, expressions, accepts in _vendor_detectors():
            for expression in expressions:
                for match in expression.finditer(piece):
                    if accepts(match):
                        yield _Finding(kind, match.start(), match.end())
    for run in _RUN.finditer(piece):
        for match in _TOKEN.finditer(piece, run.start(), run.end()):
            if not _is_placeholder(match.group()) and not _REPEATED.search(match.group()):
                yield _Finding(_TOKEN_KINDS[int((match.lastgroup or "t0")[1:])], match.start(), match.end())
    if "://" in piece:
        for match in _URL_PASSWORD.finditer(piece):
            if _is_password(match["value"]):
                yield _Finding("Basic Auth Credentials", match.start("value"), match.end("value"))
    if "curl" in piece:
        for match in _COMMAND_PASSWORD.finditer(piece):
            if _is_password(match["value"]) and match["value"] != match["user"]:
                yield _Finding("Basic Auth Credentials", match.start("value"), match.end("value"))
    if _CREDENTIAL_WORD.search(piece):
        for match in _ASSIGNMENT.finditer(piece):
            # The front of the name is looked up afterwards: within the expression it would cost most of the time.
            front = _NAME_FRONT.search(piece, max(0, match.start() - 40), match.start())
            if _is_assigned_secret((front.group() if front else "") + match["name"], match["value"]):
                yield _Finding("Assigned Secret", match.start("value"), match.end("value"))
        for match in _PROSE.finditer(piece):
            value = match["value"].rstrip(".")
            if not _is_code(value) and (_is_strong_password(value) or _is_machine_made(value)):
                yield _Finding("Secret in Prose", match.start("value"), match.start("value") + len(value))
        for match in _HEADER.finditer(piece):
            if not _is_code(match["value"]) and _is_machine_made(match["value"]):
                yield _Finding("Authorization Header", match.start("value"), match.end("value"))


@functools.cache
def _vendor_detectors() -> tuple[tuple[str, tuple[re.Pattern[str], ...], Callable[[re.Match[str]], bool]], ...]:
    """(kind, expressions, test of a match) of every plugin in use. detect-secrets is imported here, when needed."""
    detectors = []
    for module_name, class_name in _PLUGINS:
        plugin = getattr(importlib.import_module(f"detect_secrets.plugins.{module_name}"), class_name)()
        accepts = functools.partial(_accepts, plugin, class_name in _LENIENT)
        detectors.append((str(plugin.secret_type), tuple(plugin.denylist), accepts))
    return tuple(detectors)


def _accepts(plugin: Any, lenient: bool, match: re.Match[str]) -> bool:
    value = match.group()
    if not lenient:
        before = match.string[match.start() - 1 : match.start()]
        after = match.string[match.end() : match.end() + 1]
        within_word = (before.isalnum() and value[0].isalnum()) or (after.isalnum() and value[-1].isalnum())
        if within_word or _is_placeholder(value):
            return False
    # Some plugins test more than their expressions (a JSON Web Token must decode).
    return any(True for _ in plugin.analyze_string(value))


def _is_placeholder(value: str) -> bool:
    return bool(_MASKED.search(value) or _PLACEHOLDER.search(value)) or _longest_run(value) >= 7


def _longest_run(value: str) -> int:
    """Length of the longest stretch of characters that count up by one, as in abcdef or 12345, case ignored."""
    longest = current = 1
    codes = [ord(char) for char in value.lower()]
    for previous, code in itertools.pairwise(codes):
        current = current + 1 if code == previous + 1 else 1
        longest = max(longest, current)
    return longest


def _is_password(value: str) -> bool:
    """Whether ``value`` may be a real password: no placeholder, no default word, no template."""
    if value[0] in "$<{%[" or _REPEATED.search(value):
        return False
    return not _is_placeholder(value) and _COMMON_PASSWORD.fullmatch(value) is None


def _is_assigned_secret(name: str, value: str) -> bool:
    """Whether a value given to something named like a credential looks made by a machine, or like a real password."""
    if _NO_SECRET_NAME.search(name) or _is_code(value):
        return False
    return _is_machine_made(value) or (_PASSWORD_NAME.search(name) is not None and _is_strong_password(value))


def _is_code(value: str) -> bool:
    """Whether ``value`` is a path, an attribute, an identifier, an address or a template rather than a value."""
    if not _CODE.fullmatch(value):
        return False
    # Base64 holds slashes too: parts that mix both cases and digits are no names of folders.
    parts = re.split(r"[/.:_-]", value)
    return not any(len(part) >= 6 and part.isalnum() and _character_classes(part) == 3 for part in parts)


def _is_strong_password(value: str) -> bool:
    return len(value) >= 8 and _character_classes(value) >= 3 and any(map(str.isdigit, value)) and _is_password(value)


def _is_machine_made(value: str) -> bool:
    return (
        len(value) >= 16
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and _entropy_bits(value) >= _MIN_ENTROPY_BITS
        and not _is_words(value)
        and _is_password(value)
    )


def _is_words(value: str) -> bool:
    """Whether ``value`` reads as words and numbers joined by - or _, as identifiers do."""
    parts = [part for part in re.split(r"[-_.:/]", value) if part]
    return len(parts) > 1 and all(part.isdigit() or part.isalpha() or len(part) <= 4 for part in parts)


def _character_classes(value: str) -> int:
    tests: tuple[Callable[[str], bool], ...] = (str.islower, str.isupper, str.isdigit, lambda char: not char.isalnum())
    return sum(any(test(char) for char in value) for test in tests)


def _entropy_bits(value: str) -> float:
    """Shannon entropy of the characters of ``value``, bits a character."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())


def _grown(text: str, start: int, end: int) -> tuple[int, int]:
    """The span widened over all characters that a token may hold, so that no part of a credential is left."""
    while start > 0 and text[start - 1] in _TOKEN_CHARS:
        start -= 1
    while end < len(text) and text[end] in _TOKEN_CHARS:
        end += 1
    return start, end


def _fingerprint() -> str:
    patterns = sorted((name, value.pattern) for name, value in globals().items() if isinstance(value, re.Pattern))
    digest = hashlib.sha256(repr((_PLUGINS, _MIN_ENTROPY_BITS, patterns)).encode()).hexdigest()[:12]
    return f"detect-secrets {importlib.metadata.version('detect-secrets')} + {digest}"


DETECTORS_FINGERPRINT: str = _fingerprint()
"""Changes whenever the detectors change: then texts are scanned again."""
