"""The caller's side: which rollout a call belongs to, said so that it cannot be forgotten.

An id is `<task>-<rollout>`, with `-a<n>` from the second attempt on, or one of the caller's own. It reaches the
server in a header, in the base URL, or in W3C baggage; `with rollout_context(id):` makes it known to the clients that
`capture.hooks` correlates. The `..._run` functions read NeMo Gym's run requests, under the names that its agents use.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from pipeline.stems import SAFE_MAX_BYTES

from .addresses import prefixed_path, prefixed_url
from .annotate import current

if TYPE_CHECKING:
    from .store import CaptureStore

__all__ = [
    "base_url_for_run",
    "check_rollout_id",
    "current_rollout_id",
    "make_rollout_id",
    "next_attempt",
    "prefixed_url",
    "resolve_model_base_url",
    "rollout_call_kwargs",
    "rollout_context",
    "rollout_id_from_run",
    "url_path_for_request",
    "url_path_for_run",
]

HEADER: Final = "x-rollout-id"
"""The first of the setting `rollout_headers` of servers, by default."""

TASK, ROLLOUT, ATTEMPT, EXPLICIT = (
    "_ng_task_index",
    "_ng_rollout_index",
    "_ng_attempt_index",
    "_ng_rollout_id",
)
"""The members of NeMo Gym's run requests and collected rows that name a rollout."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_INDEX_MAX: Final = 10**9
"""An attempt has at most nine digits in the record; so have the others."""


class _Block:
    """One `with` block; told apart from others of the same rollout."""

    __slots__ = ("rollout_id",)

    def __init__(self, rollout_id: str | None) -> None:
        self.rollout_id = rollout_id


_block: ContextVar[_Block | None] = ContextVar("model_call_capture_rollout", default=None)


def make_rollout_id(task: int, rollout: int, attempt: int = 0) -> str:
    """Return the id of one attempt at one rollout of one task: `17-2`, and `17-2-a1` for its second attempt.

    Indices are whole numbers from 0, below a thousand million. Raises ValueError for any other, TypeError for what is
    no whole number.
    """
    for name, index in (("task", task), ("rollout", rollout), ("attempt", attempt)):
        _check_index(name, index)
    return _attempt_of(f"{task}-{rollout}", attempt)


def check_rollout_id(rollout_id: str) -> str:
    """Return an id that is fit for a path, a header and a file name, as it is; raises ValueError for any other.

    ASCII letters and digits, and behind the first also `.`, `_` and `-`; at most 200 characters, no dot at the end.
    """
    fits = isinstance(rollout_id, str) and _ID.fullmatch(rollout_id) and not rollout_id.endswith(".")
    if not fits or len(rollout_id) > SAFE_MAX_BYTES:
        raise ValueError(
            f"rollout id {str(rollout_id)[:80]!r} is not of letters and digits, then also . _ -, at most "
            f"{SAFE_MAX_BYTES} characters, with no dot at the end"
        )
    return rollout_id


def next_attempt(store: "CaptureStore", task: int, rollout: int) -> int:
    """Return the index of the attempt to make next: one above every attempt that left a trace in the store, or 0.

    A trace is a record, a gap, or a call that is on its way: a run that was killed leaves no row of results, but its
    calls. Calls of runs that were cleared do not count. Raises as `make_rollout_id` does.
    """
    first = make_rollout_id(task, rollout)
    grammar = re.compile(rf"{first}(?:-a(\d{{1,9}}))?", re.ASCII)
    found = [match for stem in store.traces() if (match := grammar.fullmatch(stem))]
    return max((int(match[1] or 0) + 1 for match in found), default=0)


@contextmanager
def rollout_context(rollout_id: str | None) -> Iterator[str | None]:
    """Have every call in the block belong to this rollout, as far as its client is correlated by `capture.hooks`.

    For synchronous and asynchronous code: a task that is started in the block takes the rollout along, and so does a
    thread of `asyncio.to_thread` or `anyio.to_thread`; one of a pool's own does not. Blocks nest; None ends
    correlation in its block. Raises ValueError for an id that `check_rollout_id` refuses.
    """
    block = _Block(None if rollout_id is None else check_rollout_id(rollout_id))
    outer = _block.get()
    _block.set(block)
    try:
        yield block.rollout_id
    finally:
        if _block.get() is block:  # a generator that is dropped may end in another context
            _block.set(outer)


def current_rollout_id() -> str | None:
    """Return the rollout of the innermost block; in a handler under capture else the one of its exchange, or None."""
    block = _block.get()
    return current().rollout_id if block is None else block.rollout_id


def rollout_id_from_run(body: object) -> str | None:
    """Return the rollout id of a run request or a collected row of NeMo Gym's; None where it names none.

    `body` is a mapping or an object with such members. `_ng_rollout_id` wins over `_ng_task_index` and
    `_ng_rollout_index`; both get `-a<n>` for an `_ng_attempt_index` above 0. Raises ValueError for an explicit id
    that `check_rollout_id` refuses, and for an attempt that is no whole number.
    """
    explicit, task, index, attempt = (_member(body, name) for name in (EXPLICIT, TASK, ROLLOUT, ATTEMPT))
    if explicit is None and (task is None or index is None):
        return None
    logical = check_rollout_id(f"{task}-{index}" if explicit is None else explicit)
    try:
        return check_rollout_id(_attempt_of(logical, int(attempt or 0)))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{ATTEMPT}={attempt!r} is no attempt of rollout {logical}") from error


def rollout_call_kwargs(body: object) -> dict[str, Any]:
    """Return the keyword arguments that correlate one HTTP call of a run: `headers`, or none where it has no id."""
    rollout_id = rollout_id_from_run(body)
    return {} if rollout_id is None else {"headers": {HEADER: rollout_id}}


def url_path_for_run(url_path: str, body: object) -> str:
    """Return the path of a call with the run's prefix in front; unchanged where the run has no id."""
    return prefixed_path(url_path, rollout_id_from_run(body))


def url_path_for_request(url_path: str, request: object) -> str:
    """Return the path of a call with the prefix that a request came with: its path parameter `rollout_id`."""
    parameters = getattr(request, "path_params", None)
    rollout_id = parameters.get("rollout_id") if isinstance(parameters, Mapping) else None
    return prefixed_path(url_path, rollout_id)


def base_url_for_run(base_url: str, body: object, *, force: bool = False) -> str:
    """Return a model server's URL with the run's prefix, as `prefixed_url` does."""
    return prefixed_url(base_url, rollout_id_from_run(body), force=force)


def resolve_model_base_url(server_url: str, rollout_id: str | None = None, *, force: bool = False) -> str:
    """Return the base URL to give a client of a model server: with the rollout's prefix, and with `/v1` behind it."""
    url = server_url.rstrip("/")
    return prefixed_url(url if re.search(r"/v\d+\w*$", url) else f"{url}/v1", rollout_id, force=force)


def _attempt_of(logical: str, attempt: int) -> str:
    _check_index("attempt", attempt)
    return f"{logical}-a{attempt}" if attempt else logical


def _check_index(name: str, index: object) -> None:
    if not isinstance(index, int) or isinstance(index, bool):
        raise TypeError(f"{name}={index!r} is no whole number")
    if not 0 <= index < _INDEX_MAX:
        raise ValueError(f"{name}={index} is not from 0 to {_INDEX_MAX - 1}")


def _member(body: object, name: str) -> Any:  # noqa: ANN401 - whatever the request holds
    return body.get(name) if isinstance(body, Mapping) else getattr(body, name, None)
