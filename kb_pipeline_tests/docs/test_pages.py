"""What the pages name exists: links, files, commands, options, targets, variables, values, fields, assets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

from kb_pipeline.adapters.rows import ImportRow
from kb_pipeline.cli import kb
from kb_pipeline.commands.policy_page import FLOW
from kb_pipeline.policy.load import load_policy
from kb_pipeline.vocabulary import Kind
from kb_pipeline_tests.docs.pages import PAGES, ROOT, anchors, codes, prose, shell_lines, spans, table

README = ROOT / "README.md"
SOURCES = sorted((ROOT / "kb_pipeline").rglob("*.py"))
pages = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


def test_the_pages_are_there() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert names >= {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/glossary.md", "docs/policies.md"}
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} leads nowhere"
        if anchor:
            assert anchor in anchors(there), f"{there.name} has no heading {anchor!r}"


@pages
def test_code_spans_name_files_that_exist(page: Path) -> None:
    places = [ROOT, ROOT / "kb_pipeline", ROOT / "kb_pipeline" / "policy", ROOT / "kb_pipeline_tests"]
    for span in spans(page):
        if re.fullmatch(r"[\w./-]+/[\w.-]+\.(py|sql|toml|md|yaml)|\w+\.(py|toml|md)|(dagster|workspace)\.yaml", span):
            if "NNNN" in span:
                continue
            assert any((place / span).exists() for place in places), f"{span} does not exist"


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that a line starts, and its remaining words."""
    found: click.Command = kb
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        with click.Context(found) as context:
            inner = found.get_command(context, words[0])
        assert inner is not None, f"there is no command {words[0]!r}"
        found, words = inner, words[1:]
    return found, words


@pages
def test_commands_and_options_exist(page: Path) -> None:
    for line in shell_lines(page):
        words = shlex.split(line, comments=True)
        if not words or words[0] != "kb":
            continue
        command, rest = command_of(words[1:])
        known = {name for parameter in command.params for name in parameter.opts} | {"--debug", "--help"}
        for word in rest:
            if word.startswith("--"):
                assert word.partition("=")[0] in known, f"kb {command.name} has no option {word}"


def test_readme_names_every_command() -> None:
    named = {words[1] for line in shell_lines(README) if (words := shlex.split(line, comments=True))[:1] == ["kb"]}
    with click.Context(kb) as context:
        missing = set(kb.list_commands(context)) - named
    assert missing == {"demo"}, "demo is what make curate runs; all others belong into the README"


def test_every_option_named_in_prose_belongs_to_some_command() -> None:
    known = {"--debug", "--config-json"}
    with click.Context(kb) as context:
        commands = [kb.get_command(context, name) for name in kb.list_commands(context)]
    for command in commands:
        assert command is not None
        inner = list(command.commands.values()) if isinstance(command, click.Group) else []
        known |= {name for each in (command, *inner) for parameter in each.params for name in parameter.opts}
    for span in spans(README):
        if span.startswith("--"):
            assert span.split()[0] in known


@pages
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for line in shell_lines(page):
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert {word for word in words[1:] if "=" not in word} <= targets, line


def test_the_flow_is_that_of_the_code() -> None:
    rows = table(README, "stage")
    shown = [(word, ", ".join(codes(asset)), ", ".join(codes(policy))) for word, asset, _, policy in rows]
    assert shown == list(FLOW)


def test_values_are_those_in_force() -> None:
    defaults = load_policy()
    named = [span for span in spans(README) if re.fullmatch(r"[a-z]+\.[a-z_]+: \S+", span)]
    assert len(named) >= 10
    for span in named:
        key, _, shown = span.partition(": ")
        section, name = key.split(".")
        value = getattr(getattr(defaults, section), name)
        if key != "judge.name":  # shown with another value than the default
            assert float(shown) == value, f"{key} is {value}, and the README says {shown}"


def test_every_field_of_a_row_is_described() -> None:
    described = {name for row in table(README, "field") for name in codes(row[0])}
    returned = {"content_hash", "state_reason", "state_changed_at", "merged_into", "superseded_by", "conflict_state"}
    returned |= {"quality_score", "distinctiveness", "vector_key", "verdict_keys"}
    assert described | returned == set(ImportRow.model_fields)
    assert returned <= set(spans(README))
    (kinds,) = [row[1] for row in table(README, "field") if row[0] == "`kind`"]
    assert kinds.removeprefix("one of ").split(", ") == [kind.value for kind in Kind]


def test_every_environment_variable_is_described() -> None:
    described = {codes(row[0])[0] for row in table(README, "variable")}
    # Quoted whole: a name that is read or set, or the default of a policy value.
    used = {
        name
        for path in SOURCES
        for name in re.findall(r"[\"']((?:KB|ANTHROPIC)_[A-Z_]+)[\"']", path.read_text("utf-8"))
    } | {load_policy().judge.api_key_env}
    assert "KB_HOME" in used
    assert described - {"DAGSTER_HOME"} == used
    example = set(re.findall(r"^#? ?([A-Z_]+)=", (ROOT / ".env.example").read_text("utf-8"), re.MULTILINE))
    assert example <= described
