"""A Gym model server's application under capture, where what it says of itself is not what capture expects."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from capture import CaptureStore
from capture.gym import config_from_gym
from capture.gym_server import EXECUTION, install
from tests.capture.test_gym import application, call, client_of, flags


class Saying:
    """A middleware that says something strange of how the answer was come by."""

    def __init__(self, app: Any, said: Any) -> None:  # noqa: ANN401 - an ASGI application, and anything
        self._app = app
        self._said = said

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        """Serve one scope."""
        scope.setdefault("state", {})[EXECUTION] = self._said
        await self._app(scope, receive, send)


@pytest.mark.parametrize(
    "said", [{"response_source": object()}, {5: "five"}, {"upstream_status_code": 1 << 80}, "no"]
)
def test_what_a_server_says_of_itself_never_costs_its_answer(said: object, tmp_path: Path) -> None:
    """What cannot be stored, or has another form, is left out; the call is served and recorded."""
    store = CaptureStore(tmp_path)

    async def main() -> int:
        app = application()
        install(app, config_from_gym(flags(tmp_path), {"CAPTURE_WORKER_KIND": "thread"}))
        app.add_middleware(Saying, said=said)
        async with client_of(app) as client:
            status = await call(client)
        assert (await store.asettle("4-1", 10)).complete
        return status

    assert anyio.run(main) == 200
    assert [record.complete for record in store.read("4-1")] == [True]
