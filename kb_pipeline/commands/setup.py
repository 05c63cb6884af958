"""kb init, kb ui, kb stop: the house around the work."""

from __future__ import annotations

import click


@click.command()
def init() -> None:
    """Prepare the database: start the embedded server if needed, apply migrations. Safe to repeat."""
    from kb_pipeline.adapters.dagster_storage import dagster_instance
    from kb_pipeline.adapters.database_url import database_url, describe
    from kb_pipeline.adapters.migrations import migrate

    url = database_url()
    applied = migrate(url)
    with dagster_instance():
        pass
    click.echo(f"database {describe(url)}: " + (f"applied {', '.join(applied)}" if applied else "up to date"))


@click.command()
def stop() -> None:
    """Stop the embedded server. A server of your own (KB_DATABASE_URL) is left alone."""
    from kb_pipeline.adapters.database_url import embedded_server

    server = embedded_server()
    if server is None:
        click.echo("KB_DATABASE_URL names a server of your own; nothing was stopped")
    else:
        click.echo("the embedded server was stopped" if server.stop() else "the embedded server was not running")


@click.command()
@click.option("--port", default=3000, show_default=True, help="Port of the UI.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address the UI listens on.")
def ui(port: int, host: str) -> None:
    """Open the Dagster UI, with the daemon that runs weeks by themselves. Ctrl-C ends it."""
    import os
    import sys

    from kb_pipeline.adapters.dagster_storage import prepare_dagster_home, workspace_yaml
    from kb_pipeline.adapters.database_url import database_url
    from kb_pipeline.adapters.migrations import migrate

    migrate(database_url())
    os.environ["DAGSTER_HOME"] = str(prepare_dagster_home())
    # What Dagster says of its own command line helps nobody who typed `kb ui`.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:Function `dev_command`")
    arguments = ["dagster", "dev", "-w", str(workspace_yaml()), "-h", host, "-p", str(port)]
    click.echo(f"Dagster UI on http://{host}:{port} - Ctrl-C ends it", err=True)
    os.execv(sys.executable, [sys.executable, "-m", *arguments])  # noqa: S606 - this very interpreter
