"""Real servers for tests: the scripted model under uvicorn, bare or with capture on, in processes of its own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from capture.demo.processes import Server, serve

SCRIPTED = "capture.demo.server:scripted_app"
CAPTURED = "capture.asgi:app"


@contextmanager
def scripted(folder: Path, *, workers: int = 1, environ: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run the scripted model without capture; its log is `folder/server.log`."""
    with serve(
        SCRIPTED, log=folder / "server.log", workers=workers, environ=environ, options=["--factory"]
    ) as server:
        yield server


@contextmanager
def captured(
    folder: Path, directory: Path, *, workers: int = 2, environ: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run the scripted model with capture on, recording into `directory`; its log is `folder/server.log`."""
    settings = {
        "CAPTURE_ENABLED": "1",
        "CAPTURE_DIRECTORY": str(directory),
        "CAPTURE_APP": "capture.demo.served:app",
    }
    with serve(
        CAPTURED, log=folder / "server.log", workers=workers, environ={**settings, **(environ or {})}
    ) as server:
        yield server
