"""Putting capture around an application: in code, by environment, and so that no guard is left outside of it."""

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from capture import CaptureConfig, CaptureConfigError, CaptureMiddleware, install
from capture.demo.server import create_app
from capture.tap import Receive, Scope, Send
from tests.flows.driving import App, Server, Site, request, scope

KEY = (b"authorization", b"Bearer sesame")


class KeyGuard:
    """A guard as people write them: what begins with `/v1` needs the key."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a call through, or answer 401."""
        if scope["type"] == "http" and scope["path"].startswith("/v1") and KEY not in scope["headers"]:
            await PlainTextResponse("no key", 401)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def guarded(*inside: Middleware) -> Starlette:
    """Make the scripted model behind the guard, with more middlewares inside of it."""
    return Starlette(routes=[Mount("/", create_app())], middleware=[Middleware(KeyGuard), *inside])


async def status_of(app: App, **changes: Any) -> int:  # noqa: ANN401 - any member of the scope
    """Make one prefixed call and return its status."""
    server = Server([request(b'{"model":"scripted","messages":[]}')])
    await app(scope(**changes), server.receive, server.send)
    return int(server.sent[0]["status"])


@pytest.mark.anyio
@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
async def test_a_guard_inside_sees_the_served_path(tmp_path: Path, *, enabled: bool) -> None:
    """Around the finished application, a prefixed call without a key is refused, and recorded, without its key."""
    site = Site(tmp_path / "records")
    app = install(guarded(), site.config if enabled else CaptureConfig())
    assert await status_of(app) == 401
    assert await status_of(app, headers=[KEY]) == 200
    records = await site.records()
    assert [record.status_code for record in records] == ([401, 200] if enabled else [])
    assert [record.error_category for record in records] == (["auth", None] if enabled else [])
    assert "sesame" not in str(records)
    site.close()


@pytest.mark.anyio
async def test_a_guard_outside_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """Added among an application's middlewares, capture says once and loudly who is outside of it."""
    config = CaptureConfig()
    app = guarded(Middleware(CaptureMiddleware, config=config))
    for _ in range(2):
        await status_of(app)
    told = [record for record in caplog.records if "capture_not_outermost" in record.message]
    assert [record.levelname for record in told] == ["ERROR"]
    assert "KeyGuard" in told[0].message


@pytest.mark.anyio
async def test_the_outermost_of_many_is_told_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Added last, as `vllm serve --middleware` does it, capture is outermost, and a guard inside is safe."""
    app = guarded()
    app.add_middleware(CaptureMiddleware, config=CaptureConfig())
    assert await status_of(app) == 401
    assert caplog.records == []


def captured_inside() -> dict[str, Any]:
    """Make applications that have capture inside already."""
    config = CaptureConfig()
    captured = install(create_app(), config)
    return {
        "installed": captured,
        "wrapped": CORSMiddleware(KeyGuard(captured)),
        "listed": guarded(Middleware(CaptureMiddleware, config=config)),
        "listed-and-wrapped": KeyGuard(guarded(Middleware(CaptureMiddleware, config=config))),
    }


@pytest.mark.parametrize("kind", captured_inside())
def test_the_unsafe_order_is_refused(kind: str) -> None:
    """An application that has capture inside, behind whatever others, is refused with what to do instead."""
    with pytest.raises(CaptureConfigError, match=r"install"):
        install(captured_inside()[kind], CaptureConfig())


def test_layers_that_lead_back_are_no_trap() -> None:
    """An application whose `app` is itself is installed all the same."""
    app = KeyGuard(create_app())
    app.app = app
    assert isinstance(install(app, CaptureConfig()), CaptureMiddleware)


def test_a_directory_that_cannot_be_written_is_refused() -> None:
    """Capture that could not record is refused at start, with the path."""
    with pytest.raises(CaptureConfigError, match="/proc/nowhere"):
        install(create_app(), CaptureConfig(enabled=True, directory="/proc/nowhere"))


@pytest.fixture
def asgi(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import `capture.asgi`, which needs an application to wrap."""
    monkeypatch.setenv("CAPTURE_APP", "capture.demo.served:app")
    return import_module("capture.asgi")


@pytest.fixture
def user_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a test a folder of the user's that modules are imported from."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_an_application_by_name(asgi: ModuleType) -> None:
    """An attribute, one of a class, and a factory are all found by their name."""
    for target in ("capture.demo.served:app", "capture.demo.server:scripted_app"):
        assert isinstance(asgi.load_app(target), Starlette)
    assert asgi.load_app("capture.middleware:CaptureMiddleware.__call__") is CaptureMiddleware.__call__
    assert isinstance(asgi.app.app, Starlette)


BAD_TARGETS: Mapping[str, str] = {
    "": "not set",
    "served": "module:attribute",
    ":app": "module:attribute",
    "served:": "module:attribute",
    "nowhere_at_all:app": "nowhere_at_all",
    "capture.nowhere:app": "capture.nowhere",
    "capture.demo.served:nothing": "nothing",
    "capture.demo.served:app.nothing": "nothing",
    "os:sep": "no application",
}
"""A value of CAPTURE_APP to a part of what is said of it."""


@pytest.mark.parametrize(("target", "said"), BAD_TARGETS.items())
def test_a_bad_name_is_refused(
    asgi: ModuleType, monkeypatch: pytest.MonkeyPatch, target: str, said: str
) -> None:
    """A name that leads to no application is refused with the variable and the reason."""
    monkeypatch.setenv("CAPTURE_APP", target)
    with pytest.raises(CaptureConfigError, match=f"CAPTURE_APP.*{said}"):
        asgi.build()


@pytest.mark.parametrize("line", ["import nowhere_at_all", "None.nothing", "raise RuntimeError('mine')"])
def test_what_the_users_own_module_raises_is_theirs(
    asgi: ModuleType, user_modules: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """An application that fails to import fails with its own exception, not with a word of ours."""
    (user_modules / "failing_app.py").write_text(f"{line}\n")
    monkeypatch.delitem(sys.modules, "failing_app", raising=False)
    with pytest.raises((ModuleNotFoundError, AttributeError, RuntimeError)):
        asgi.load_app("failing_app:app")
