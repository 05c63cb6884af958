"""kb serve: the review pages and the HTTP API."""

from __future__ import annotations

from pathlib import Path

import click

from kb_pipeline.commands.options import actor_option


@click.command()
@click.option("--port", default=8765, show_default=True, type=click.IntRange(1, 65535), help="Port of the pages.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address the pages listen on.")
@click.option("--name", "names", multiple=True, metavar="NAME", help="A further name under which browsers reach them.")
@click.option("--policy", "policy_file", type=click.Path(path_type=Path), help="Your policy file (else KB_POLICY).")
@actor_option
def serve(port: int, host: str, names: tuple[str, ...], policy_file: Path | None, actor: str) -> None:
    """Serve the review pages and the HTTP API. Ctrl-C ends it.

    The printed address holds a token: a browser that opened it, and a program that sends it, may answer. KB_SERVE_TOKEN
    sets one of your own, of at least 16 characters.
    """
    import os
    import socket
    import threading

    import uvicorn

    from kb_pipeline.adapters.database_url import database_url
    from kb_pipeline.adapters.migrations import migrate
    from kb_pipeline.defs.clock import default_actor
    from kb_pipeline.errors import UsageError
    from kb_pipeline.policy.load import load_policy
    from kb_pipeline.web.app import build_app
    from kb_pipeline.web.settings import TOKEN_VARIABLE, Settings, is_long_enough

    own = os.environ.get(TOKEN_VARIABLE, "")
    if own and not is_long_enough(own):
        raise UsageError(f"{TOKEN_VARIABLE} is shorter than 16 characters; take a longer one, or none")
    load_policy(file=policy_file)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"{host} port {port} cannot be listened on: {error.strerror or error}. Take another --port or --host"
        ) from error
    migrate(database_url())
    chosen = {"token": own} if own else {}
    settings = Settings(
        host=host, port=port, actor=actor or default_actor(), policy_file=policy_file, names=names, **chosen
    )
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"review pages on http://{shown}:{port}/?token={settings.token} - Ctrl-C ends it", err=True)
    if not settings.is_local:
        click.echo("they are open to the network, unencrypted: put a proxy with TLS before them", err=True)
    app = build_app(settings)
    stop = threading.Event()
    threading.Thread(target=app.state.desk.keep_fresh, args=(stop,), name="kb-queues", daemon=True).start()
    # Uvicorn logs addresses of requests, and ours may hold the token.
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        stop.set()
