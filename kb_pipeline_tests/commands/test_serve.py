"""kb serve: what it refuses before it listens. The pages themselves are tested in web/."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kb_pipeline_tests.fakes.house import House


def refused(house: House, *words: str, **variables: str) -> str:
    done = house.kb("serve", *words, **variables)
    assert (done.code, done.stdout) == (2, b"") and len(done.err.strip().splitlines()) == 1, done.err
    return done.err


def test_a_port_that_is_taken_is_one_sentence(house: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1 port {port} cannot be listened on" in refused(house, "--port", port)


def test_an_address_that_is_not_ours_is_one_sentence(house: House) -> None:
    assert "192.0.2.1 port 8765 cannot be listened on" in refused(house, "--host", "192.0.2.1")


def test_a_token_that_can_be_guessed_is_refused_and_not_shown(house: House) -> None:
    told = refused(house, KB_SERVE_TOKEN="easyguess")
    assert "KB_SERVE_TOKEN is shorter than 16 characters" in told and "easyguess" not in told


@pytest.mark.parametrize("content", ["retire: {max_unmatched_dayz: 3}", "retire: ["])
def test_a_wrong_policy_is_told_before_anything_starts(house: House, tmp_path: Path, content: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(content)
    assert "policy.yaml" in refused(house, "--policy", str(path))
