"""Which account of the operating system runs the embedded server. PostgreSQL refuses to run as root.

Belongs here: the command prefix that leaves root behind. A normal user needs none. Root (the usual account in a
container) has two ways, tried in this order:

1. a user namespace: the server sees itself as ``nobody``, but to the outside it is root without privileges, so that
   its files belong to root and a home that only root can enter works;
2. where namespaces are forbidden, ``setpriv`` to ``nobody``, keeping nothing but the right to pass directories that
   only root can enter.

A data directory that belongs to somebody else (made before by that user) is served under that user's account, so
that both can go on using it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from kb_pipeline.errors import DatabaseError

_SEEN_AS_ID = 65534  # must have a name in /etc/passwd, since initdb looks itself up; this one is nobody everywhere


def account_prefix(root: Path, data: Path, program: Path) -> list[str]:
    """The words to put before a server command so that it runs under an account that PostgreSQL accepts.

    May hand ``data`` over to ``nobody`` when root can no longer serve it as its own.

    Args:
        root: directory of the embedded server; must exist.
        data: its data directory; may not exist yet.
        program: the ``postgres`` executable, used to try the account.

    Returns:
        An empty list for a normal user, else a command that runs the words after it under another account.

    Raises:
        DatabaseError: the data belong to another user, or no account can be used.
    """
    owner_id = data.stat().st_uid if data.exists() else os.geteuid()
    if os.geteuid() != 0:
        if owner_id != os.geteuid():
            raise DatabaseError(
                f"the embedded server's data {data} belong to the user {_user_name(owner_id)!r}: run kb as that user, "
                "set KB_HOME to a directory of your own, or set KB_DATABASE_URL."
            )
        return []
    if owner_id != 0:
        prefix = _setpriv(owner_id, data.stat().st_gid)
        if _works(prefix, root, program):
            return prefix
    else:
        prefix = ["unshare", "--user", f"--map-user={_SEEN_AS_ID}", f"--map-group={_SEEN_AS_ID}"]
        if _works(prefix, root, program):
            return prefix
        nobody = _nobody()
        prefix = _setpriv(nobody.pw_uid, nobody.pw_gid)
        if _works(prefix, root, program):
            if data.exists():
                _hand_over(data, nobody.pw_uid, nobody.pw_gid)
            return prefix
    raise DatabaseError(
        f"the embedded server cannot run as root, and no other account could be used for {root} (tried a user "
        f"namespace, and setpriv, for which everybody must be allowed to read {program.parent}): run kb as a normal "
        "user, or set KB_DATABASE_URL to a server of your own."
    )


def _setpriv(user_id: int, group_id: int) -> list[str]:
    return [
        "setpriv",
        f"--reuid={user_id}",
        f"--regid={group_id}",
        "--clear-groups",
        "--no-new-privs",
        "--inh-caps=-all,+dac_override",
        "--ambient-caps=-all,+dac_override",
    ]


def _works(prefix: list[str], root: Path, program: Path) -> bool:
    """Whether a command under this prefix can find the server's programs and write to the server's directory.

    Both are done rather than asked for: ``test -w`` knows nothing of rights that a process got from capabilities, and
    the server looks for its own programs with a call that has the same blind spot, as ``pg_config`` does.
    """
    if shutil.which(prefix[0]) is None:
        return False
    script = '"$1" --bindir && mkdir "$2/trial.$$" && rmdir "$2/trial.$$"'
    trial = [*prefix, "/bin/sh", "-c", script, "sh", str(program.with_name("pg_config")), str(root)]
    done = subprocess.run(
        trial, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    return done.returncode == 0


def _hand_over(directory: Path, user_id: int, group_id: int) -> None:
    for path in [*directory.rglob("*"), directory]:
        os.chown(path, user_id, group_id, follow_symlinks=False)


def _nobody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError as error:
        raise DatabaseError(
            "the embedded server cannot run as root and this system has no user nobody: "
            "run kb as a normal user, or set KB_DATABASE_URL to a server of your own."
        ) from error


def _user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)
