"""Ugly input, over real sockets: a clear record or a clear error each, and nothing lost."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from capture import CaptureStore
from capture.demo.processes import serve
from tests.clients.servers import CAPTURED, captured
from tests.flows.traffic import calls

GOOD = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "stream": False}


class Running:
    """A server under capture, and a client that sends bytes as they are."""

    def __init__(self, url: str, store: CaptureStore) -> None:
        self.url = url
        self.store = store

    def send(self, path: str, body: bytes, *headers: str) -> int:
        """Send one request; return the status of the answer, read to its end."""
        parts = urlsplit(self.url)
        head = [
            f"POST {path} HTTP/1.1",
            "host: x",
            "connection: close",
            f"content-length: {len(body)}",
            *headers,
        ]
        with socket.create_connection((parts.hostname, parts.port), timeout=30) as peer:
            peer.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + body)
            answer = b""
            while data := peer.recv(1 << 16):
                answer += data
        return int(answer.split(b" ")[1])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run the scripted model under capture in one server process."""
    folder = tmp_path_factory.mktemp("bad")
    with captured(
        folder, folder / "records", workers=1, environ={"CAPTURE_FLUSH_INTERVAL_MS": "5"}
    ) as server:
        yield Running(server.url, CaptureStore(folder / "records"))


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("not-json", b"this is not JSON"),
        ("pretty", json.dumps(GOOD, indent=2).encode()),
        ("pretty-crlf", json.dumps(GOOD, indent=2).replace("\n", "\r\n").encode()),
        ("empty", b""),
        ("array", b"[1, 2, 3]"),
        ("scalar", b"7"),
        ("not-utf8", b'{"model": "\xff\xfe"}'),
        ("lone-surrogate", b'{"model": "\\ud83d"}'),
        ("nan", b'{"model": "scripted", "temperature": NaN}'),
        ("deep", b"[" * 5000 + b"]" * 5000),
        ("duplicate-keys", b'{"model": "a", "model": "b"}'),
        ("big-number", b'{"model": "m", "seed": ' + b"9" * 400 + b"}"),
        ("nul", b'{"model": "a\x00b"}'),
        ("bom", b'\xef\xbb\xbf{"model": "scripted"}'),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_any_request_body_gives_one_readable_line(
    running: Running, path: str, name: str, body: bytes
) -> None:
    """Whatever the body, the record is one line that `json.loads` reads, and the bytes sent can be had from it."""
    rollout_id = f"{name}-{path.count('/')}-{path[4:7]}"
    status = running.send(f"/ng-rollout/{rollout_id}{path}", body, "content-type: application/json")
    assert running.store.settle(rollout_id, 20).complete
    lines = (running.store.directory / f"{rollout_id}.capture.jsonl").read_bytes().split(b"\n")
    record = json.loads(lines[0])
    assert lines[1:] == [b""]
    assert record["status_code"] == status
    assert record["http"]["request_bytes"] == len(body)
    kept = record["request"] is not None or record["request_raw"] or record["request_raw_b64"]
    assert bool(kept) == bool(body)
    if name.startswith("pretty"):
        assert record["request"] == GOOD


@pytest.mark.timeout(120)
def test_a_body_of_20_mb(running: Running) -> None:
    """A request of 20 MB is served and recorded whole."""
    body = json.dumps({**GOOD, "messages": [{"role": "user", "content": "x" * 20_000_000}]}).encode()
    assert (
        running.send("/ng-rollout/large/v1/chat/completions", body, "content-type: application/json") == 200
    )
    assert running.store.settle("large", 30).complete
    (record,) = running.store.read("large")
    assert record.http.request_bytes == len(body)
    assert len(record.request["messages"][0]["content"]) == 20_000_000
    assert record.complete


@pytest.mark.parametrize(
    "rollout_id",
    [
        "../../x",
        "/etc/x",
        "..",
        ".",
        "a/../../b",
        "C:\\x",
        "~root",
        ".hidden",
        "-rf",
        "con",
        "a\nb",
        "a b",
        "x" * 300,
        "漢" * 86,
        "😀" * 64,
        "x" * 5000,
        "A",
        "a",
    ],
    ids=lambda text: ascii(text[:20]),
)
@pytest.mark.parametrize("way", ["prefix", "header"])
def test_any_rollout_id_stays_in_the_directory(running: Running, rollout_id: str, way: str) -> None:
    """Whatever the id, its file is in the directory, is its own, and is found again by the id."""
    if way == "header" and not (rollout_id.isascii() and rollout_id.isprintable()):
        rollout_id = rollout_id.encode("ascii", "ignore").decode().replace("\n", "") or "none"
    before = len(running.store.read(rollout_id))
    if way == "prefix":
        path, headers = f"/ng-rollout/{quote(rollout_id, safe='')}/v1/chat/completions", []
    else:
        path, headers = "/v1/chat/completions", [f"x-rollout-id: {rollout_id}"]
    assert running.send(path, json.dumps(GOOD).encode(), "content-type: application/json", *headers) == 200
    assert running.store.settle(rollout_id, 20).complete
    records = running.store.read(rollout_id)
    assert len(records) == before + 1
    assert {record.rollout_id for record in records} == {rollout_id}
    root = running.store.directory.resolve()
    written = list(root.parent.rglob("*.capture.jsonl"))
    assert all(path.resolve().parent == root for path in written)
    assert all(len(os.fsencode(path.name)) <= 255 for path in written)
    assert rollout_id in running.store.rollouts()


def test_unknown_paths_pass_and_are_not_recorded(running: Running) -> None:
    """A path that is no call to a model is served without its prefix, and leaves nothing."""
    assert running.send("/ng-rollout/nothing/v1/models/x", b"{}") in {404, 405}
    assert (
        running.send("/ng-rollout/nothing/v1/messages/count_tokens?beta=true", json.dumps(GOOD).encode())
        == 200
    )
    assert running.store.settle("nothing", 5).complete
    assert running.store.read("nothing") == []


def test_uncorrelated_calls_are_kept_apart(running: Running) -> None:
    """A call that names no rollout is recorded in a file of its process and day, and is in no rollout."""
    before = running.store.rollouts()
    assert running.send("/v1/chat/completions", json.dumps(GOOD).encode()) == 200
    assert running.store.settle(timeout=20).complete
    apart = [stem for stem in running.store.stems() if stem.startswith("uncorrelated~")]
    assert len(apart) == 1
    assert [record.correlation.source for record in running.store.read_stem(apart[0]).records] == ["none"]
    assert running.store.rollouts() == before


def test_secrets_are_nowhere(running: Running) -> None:
    """A key in a header, a cookie or a query value is in no file of the directory; the rest of the query is."""
    path = "/ng-rollout/secret/v1/chat/completions?key=SECRETZ&beta=true"
    headers = [
        "authorization: Bearer SECRETZ",
        "x-api-key: SECRETZ",
        "cookie: a=SECRETZ",
        "x-goog-api-key: SECRETZ",
    ]
    assert running.send(path, json.dumps(GOOD).encode(), "content-type: application/json", *headers) == 200
    assert running.store.settle("secret", 20).complete
    files = [each for each in running.store.directory.rglob("*") if each.is_file()]
    assert not [each for each in files if b"SECRETZ" in each.read_bytes()]
    (record,) = running.store.read("secret")
    assert record.http.query == "key=***&beta=true"
    assert all(each.stat().st_mode & 0o077 == 0 for each in files)


def test_a_directory_that_cannot_be_written_is_refused_at_start(tmp_path: Path) -> None:
    """The server does not start; what it says has the path and the reason."""
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    environ = {
        **os.environ,
        "CAPTURE_ENABLED": "1",
        "CAPTURE_DIRECTORY": str(blocked / "records"),
        "CAPTURE_APP": "capture.demo.served:app",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "uvicorn", CAPTURED, "--port", "0"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode != 0
    assert str(blocked / "records") in ended.stderr
    assert "Not a directory" in ended.stderr


@pytest.mark.timeout(60)
def test_capture_off_serves_prefixed_paths(tmp_path: Path) -> None:
    """With capture off the prefix is still taken off, and nothing is written."""
    environ = {"CAPTURE_APP": "capture.demo.served:app"}
    with serve(CAPTURED, log=tmp_path / "log", workers=1, environ=environ) as server:
        made = asyncio.run(calls(server.url, ["r"], 6, "off"))
    assert all(each.answered for each in made)
    assert [each.name for each in tmp_path.iterdir()] == ["log"]
