"""kb policy: the policy in force, and whether a file of your own is right."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def policy() -> None:
    """Show the policy in force, or check a policy file."""


@policy.command()
@click.option("--profile", default="weekly", show_default=True, help="Set of policy values.")
@click.option("--file", type=click.Path(path_type=Path), help="Your policy file (else KB_POLICY).")
@click.option("--corpus", help="With the values of this corpus.")
def show(profile: str, file: Path | None, corpus: str | None) -> None:
    """Print the policy in force as YAML, with its fingerprint."""
    import sys

    from ruamel.yaml import YAML

    from kb_pipeline.policy.load import load_policy

    chosen = load_policy(profile, file=file, corpus=corpus)
    click.echo(f"# profile {profile}, fingerprint {chosen.fingerprint}")
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 110
    yaml.dump(chosen.model_dump(mode="json"), sys.stdout)


@policy.command()
@click.option("--profile", default="weekly", show_default=True, help="Set of policy values the file is laid on.")
@click.option("--file", required=True, type=click.Path(path_type=Path), help="The file to check.")
def check(profile: str, file: Path) -> None:
    """Check a policy file: an error for every wrong key or value (exit 2)."""
    from kb_pipeline.policy.load import load_policy

    click.echo(f"{file} is a valid policy, fingerprint {load_policy(profile, file=file).fingerprint}")
