"""What the documents show is run, and where they point is there."""

import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from capture import CaptureStore
from capture.demo.processes import serve
from tests.clients.servers import captured
from tests.docs.blocks import DOCUMENTS, ROOT, Block, anchors, links, sessions
from tests.docs.session import CALL, RECORDS, Session, matches

SESSIONS = sessions()
MADE = "7-0"
FILES = {"capture.toml", "capture.py", "pipeline.py"}
"""The rollout that documents read from a directory which they did not fill themselves."""

BY_NAME = """
import importlib
from capture.demo.server import create_app

app = create_app()
app.add_middleware(getattr(importlib.import_module("{}"), "{}"))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a rollout: two calls that went well and one that did not."""
    folder = tmp_path_factory.mktemp("recorded")
    directory = folder / "records"
    with captured(folder, directory, workers=1) as server:
        for model in ("scripted", "scripted-tools", "scripted-500"):
            url = f"{server.url}/v1/chat/completions"
            httpx.post(url, json={**CALL, "model": model}, headers={"x-rollout-id": MADE})
        assert CaptureStore(directory).settle(MADE, 20).complete
    return directory


@pytest.fixture
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    """Open the session whose name is the test's parameter."""
    blocks = SESSIONS[request.node.callspec.params["name"]]
    reads = any(RECORDS in block.text for block in blocks) and not any(b.how == "serve" for b in blocks)
    records = request.getfixturevalue("recorded") if reads else tmp_path / "records"
    folder = tmp_path / "folder"
    folder.mkdir()
    opened = Session(folder, records)
    yield opened
    opened.stop()


@pytest.mark.parametrize("name", SESSIONS)
def test_the_examples_run(name: str, session: Session) -> None:
    """Every marked example of every document does what the document says, in its order."""
    for block in SESSIONS[name]:
        session.take(block)


def test_the_readme_is_run() -> None:
    """Of the README's blocks of code only those that install something or need a model's weights are not run."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```(?:python|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    run = {block.text for name, found in SESSIONS.items() if name.startswith("README") for block in found}
    assert len(run) > 6
    unrun = [block for block in shown if block not in run]
    assert all(
        re.match(r"pip install|vllm serve|.*\\\n +vllm serve|python -m benchmarks", text) for text in unrun
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link names a file that is there, and a heading of it where it names one."""
    for link in links(document):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), f"{document.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{document.name}: {link}"


def test_a_server_that_imports_middleware_by_name_can_use_capture(tmp_path: Path) -> None:
    """The README's `--middleware` name, imported and added last as vLLM does, takes the prefix off and records."""
    named = re.search(r"--middleware (\S+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert named is not None
    (tmp_path / "by_name.py").write_text(BY_NAME.format(*named[1].rsplit(".", 1)), encoding="utf-8")
    records = tmp_path / "records"
    environ = {"CAPTURE_ENABLED": "1", "CAPTURE_DIRECTORY": str(records)}
    options = ["--app-dir", str(tmp_path)]
    with serve("by_name:app", log=tmp_path / "server.log", environ=environ, options=options) as server:
        answer = httpx.post(f"{server.url}/ng-rollout/{MADE}/v1/chat/completions", json=CALL)
        assert CaptureStore(records).settle(MADE, 20).complete
    assert answer.status_code == 200
    assert len(CaptureStore(records).read(MADE)) == 1


def test_three_dots_stand_for_anything() -> None:
    """What a document says is printed is compared line by line, but for what it leaves open."""
    assert matches("a ... c\nd", "a b c \nd\n")
    assert not matches("a ... c\nd", "a b c\ne\n")
    assert not matches("a", "a\nb")


def test_sessions_are_found() -> None:
    """Blocks are found with their language and way to run: the README's first one starts a server."""
    first: Block = next(iter(SESSIONS.values()))[0]
    assert (first.document.name, first.how, first.language) == ("README.md", "serve", "sh")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_code_are_there(document: Path) -> None:
    """Every dotted name of the packages, and every path of a source file, that a document says can be found."""
    text = document.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:capture|pipeline)(?:\.\w+)+)`", text):
        if name not in FILES:
            assert pkgutil.resolve_name(name) is not None, name
    for path in re.findall(r"`((?:capture|pipeline|tests|benchmarks|docs|scripts)/[\w/.]*)`", text):
        assert (ROOT / path).exists(), f"{document.name}: {path}"
