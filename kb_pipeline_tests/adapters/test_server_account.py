"""Which account runs the embedded server: root with and without user namespaces, a normal user, and both in turn."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kb_pipeline.adapters.postgres_server import EmbeddedPostgres
from kb_pipeline.errors import DatabaseError

Start = Callable[[Path], EmbeddedPostgres]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
STARTER = """
import sys
from pathlib import Path
from kb_pipeline.adapters.postgres_server import EmbeddedPostgres
print(EmbeddedPostgres(Path(sys.argv[1])).start())
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers and stops them after the test."""
    servers: list[EmbeddedPostgres] = []

    def starts(root: Path) -> EmbeddedPostgres:
        servers.append(EmbeddedPostgres(root))
        servers[-1].start()
        return servers[-1]

    yield starts
    for server in servers:
        server.stop()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that everybody may enter, which pytest's own are not."""
    directory = Path(tempfile.mkdtemp(prefix="kb-tests-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def start_as(user: tuple[str, ...], root: Path) -> tuple[str, str]:
    """Starts the server as a user; the URL, and what was said on standard error."""
    command = [*user, sys.executable, "-c", STARTER, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip(), done.stderr


def postmaster(server: EmbeddedPostgres) -> int:
    return int((server.data / "postmaster.pid").read_text().splitlines()[0])


def account(server: EmbeddedPostgres) -> str:
    return Path(f"/proc/{postmaster(server)}").owner()


def test_root_without_user_namespaces(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary = os.environ["PATH"]
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("setpriv", "sh", "mkdir", "rmdir"):
        (tools / name).symlink_to(str(shutil.which(name)))
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    early = start(private / "early")
    early.stop()

    monkeypatch.setenv("PATH", str(tools))
    for server in (start(private / "late"), early):
        server.start()
        assert (account(server), server.data.owner()) == ("nobody", "nobody")
        os.kill(postmaster(server), signal.SIGKILL)
        server.start()
        assert account(server) == "nobody"

    monkeypatch.setenv("PATH", ordinary)
    early.stop()
    early.start()
    assert account(early) == "nobody"

    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(DatabaseError, match=r"cannot run as root, and no other account could be used"):
        EmbeddedPostgres(private / "never").start()


def test_a_normal_user_and_root_serve_the_same_data(open_directory: Path, start: Start) -> None:
    os.chown(open_directory, 65534, 65534)
    root = open_directory / "postgres"
    url, said = start_as(AS_NOBODY, root)
    if "Permission denied" in said or "ModuleNotFoundError" in said:
        pytest.skip("the user nobody may not read this installation")
    assert url.startswith("postgresql://"), said
    server = start(root)
    assert server.url == url
    for user in ((), AS_NOBODY, ()):
        os.kill(postmaster(server), signal.SIGKILL)
        assert start_as(user, root) == (url, "")
        assert account(server) == "nobody"
        assert {path.owner() for path in root.iterdir()} == {"nobody"}


def test_roots_own_server_has_no_rights_and_is_closed_to_others(open_directory: Path, start: Start) -> None:
    if subprocess.run(["unshare", "--user", "--map-user=65534", "true"], check=False).returncode != 0:
        pytest.skip("user namespaces are not allowed here")
    private = open_directory / "private"
    private.mkdir(mode=0o700)
    server = start(private / "postgres")
    assert account(server) == "root"
    assert {path.owner() for path in server.root.rglob("*")} == {"root"}
    rights = re.search(r"CapEff:\s*(\w+)", Path(f"/proc/{postmaster(server)}/status").read_text())
    assert rights is not None
    assert int(rights[1], 16) == 0

    for mode in (0o700, 0o755):
        private.chmod(mode)
        url, said = start_as(AS_NOBODY, server.root)
        if "Error" in said and "DatabaseError" not in said:
            pytest.skip("the user nobody may not read this installation")
        assert url == ""
        assert re.search("DatabaseError: may not open .* belongs to another user", said)
