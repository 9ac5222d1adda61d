"""A rollout's calls into its collection record: what a collector attaches to the row of results that it keeps.

`merge_capture_into_record` reads the rollout's file once, line by line, and adds one member to the row: totals, one
entry for each call, and what is missing, if anything is. The rest of the row is not looked at but for its ids, so a
rollout that failed gets its calls too. `amerge_capture_into_record` does the same in a thread, one rollout at a time
in each event loop: decoding holds the interpreter's lock line by line, and a second thread would double what the
loop waits.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple

import anyio
import anyio.to_thread
import msgspec
from anyio.lowlevel import RunVar

from pipeline.gaps import DAMAGED, Gap
from pipeline.settling import Settled, Settling
from pipeline.stems import stem_of

from .metrics import RolloutMetrics, aggregate_step_records
from .rollout import rollout_id_from_run
from .steps import StepRecord, Steps
from .store import CaptureStore
from .streaming import RecordStream

MODEL_CALL_KEY: Final = "ng_model_call_capture"
TRAJECTORY_KEY: Final = "ng_trajectory_capture"

NO_RECORDS = "model_call_capture_no_records"
"""The rollout has no readable record."""
RECORDS_UNREADABLE = "model_call_capture_records_unreadable"
"""So many lines of its file cannot be read."""
INCOMPLETE = "model_call_capture_incomplete"
"""So many calls are known to be missing; `detail` says of what."""
UNREADABLE = "model_call_capture_unreadable"
"""Its file is there and cannot be read at all."""
UNSETTLED = "model_call_capture_unsettled"
"""So many calls were still on their way; settle before you merge."""
UNACCOUNTABLE = "model_call_capture_unaccountable"
"""So many server processes cannot be asked from here whether they still have calls."""

PAYLOADS = ("request", "response", "request_raw", "response_raw", "request_raw_b64", "response_raw_b64")
"""What an entry holds beside its step with `include_payloads`."""


class Form(NamedTuple):
    """How an attachment is called inside: its list of calls, and the number of each."""

    calls: str
    number: str


FORMS: Final[Mapping[str, Form]] = {
    MODEL_CALL_KEY: Form("calls", "call_index"),
    TRAJECTORY_KEY: Form("steps", "step_index"),
}
"""NeMo Gym's two forms, by their key; any other key has the first one."""


class CaptureGap(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is missing of a rollout. `count` is of what the code says."""

    code: str
    count: int = 1
    detail: str | None = None


class AttachedCall(StepRecord, frozen=True, kw_only=True):
    """One call as it is attached: its step, its number again as `call_index`, and its payloads if asked for."""

    call_index: int | msgspec.UnsetType = msgspec.UNSET
    request: Any | msgspec.UnsetType = msgspec.UNSET
    response: Any | msgspec.UnsetType = msgspec.UNSET
    request_raw: str | msgspec.UnsetType | None = msgspec.UNSET
    response_raw: str | msgspec.UnsetType | None = msgspec.UNSET
    request_raw_b64: str | msgspec.UnsetType | None = msgspec.UNSET
    response_raw_b64: str | msgspec.UnsetType | None = msgspec.UNSET


class ModelCallCapture(msgspec.Struct, frozen=True, kw_only=True):
    """What is attached to a row under `ng_model_call_capture`. `gaps` is there only if something is missing."""

    rollout_id: str
    metrics: RolloutMetrics
    calls: list[AttachedCall]
    gaps: list[CaptureGap] | msgspec.UnsetType = msgspec.UNSET


class TrajectoryCapture(msgspec.Struct, frozen=True, kw_only=True):
    """What is attached to a row under `ng_trajectory_capture`. `gaps` is there only if something is missing."""

    rollout_id: str
    metrics: RolloutMetrics
    steps: list[AttachedCall]
    gaps: list[CaptureGap] | msgspec.UnsetType = msgspec.UNSET


def merge_capture_into_record(
    row: MutableMapping[str, Any],
    store: CaptureStore,
    rollout_id: str | None = None,
    *,
    key: str = MODEL_CALL_KEY,
    include_payloads: bool = False,
) -> dict[str, Any] | None:
    """Attach a rollout's calls to its row under `key`, and return what was attached.

    The id is the row's own unless given, as `rollout_id_from_run` reads it; without either nothing is attached, and
    null returned. Nothing else of the row changes. `include_payloads` adds each call's request and response. Wait
    for the calls first, by `store.settle`; those that are still on their way are a gap. Blocking. Raises ValueError
    for a row whose id is unfit, and nothing for what is in the files.
    """
    rollout_id = rollout_id or rollout_id_from_run(row)
    if rollout_id is None:
        return None
    form = FORMS.get(key, FORMS[MODEL_CALL_KEY])
    attached = _attachment(store, rollout_id, form, PAYLOADS if include_payloads else ())
    row[key] = attached
    return attached


async def amerge_capture_into_record(
    row: MutableMapping[str, Any],
    store: CaptureStore,
    rollout_id: str | None = None,
    *,
    key: str = MODEL_CALL_KEY,
    include_payloads: bool = False,
) -> dict[str, Any] | None:
    """Do what `merge_capture_into_record` does, in a thread; asyncio and trio. The row changes at the end only."""
    rollout_id = rollout_id or rollout_id_from_run(row)
    if rollout_id is None:
        return None
    form = FORMS.get(key, FORMS[MODEL_CALL_KEY])
    work = partial(_attachment, store, rollout_id, form, PAYLOADS if include_payloads else ())
    attached = await anyio.to_thread.run_sync(work, limiter=_one_at_a_time())
    row[key] = attached
    return attached


_limiter: RunVar[anyio.CapacityLimiter] = RunVar("model_call_capture_merges")


def _one_at_a_time() -> anyio.CapacityLimiter:
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(1)
        _limiter.set(limiter)
    return limiter


class _Read(NamedTuple):
    """What was read of a rollout, in order: its steps, each one's payloads, and what is missing."""

    steps: list[StepRecord]
    payloads: list[dict[str, Any]]
    gaps: list[CaptureGap]


def _attachment(store: CaptureStore, rollout_id: str, form: Form, payloads: Sequence[str]) -> dict[str, Any]:
    read = _read(store, stem_of(rollout_id), payloads)
    attached: dict[str, Any] = {
        "rollout_id": rollout_id,
        "metrics": msgspec.to_builtins(aggregate_step_records(read.steps)),
        form.calls: [
            {form.number: step.step_index, **msgspec.to_builtins(step), **payload}
            for step, payload in zip(read.steps, read.payloads, strict=True)
        ],
    }
    return attached | ({"gaps": msgspec.to_builtins(read.gaps)} if read.gaps else {})


def _read(store: CaptureStore, stem: str, payloads: Sequence[str]) -> _Read:
    unsettled = _unsettled(store, stem)
    steps, kept, stream = Steps(), [], RecordStream(store.directory, stem)
    try:
        for record in stream:
            steps.add(record)
            kept.append({name: getattr(record, name) for name in payloads})
        gaps = _missing(store.gaps_beside(stem, stream.found), stream.found.ids)
    except OSError as error:
        gaps = [CaptureGap(code=UNREADABLE, detail=str(error))]
    return _Read(steps.finish(), [kept[number] for number in steps.order()], gaps + unsettled)


def _unsettled(store: CaptureStore, stem: str) -> list[CaptureGap]:
    """Say which calls are not in the file yet, without waiting for them."""
    with closing(Settling(store.directory, stem, time.monotonic)) as settling:
        settling.poll()
        settled: Settled = settling.result([])
    counts = {UNSETTLED: len(settled.pending), UNACCOUNTABLE: len(settled.unaccountable)}
    return [CaptureGap(code=code, count=count) for code, count in counts.items() if count]


def _missing(gaps: Iterable[Gap], ids: set[str]) -> list[CaptureGap]:
    """Return what is missing of one file: all of it, damaged lines, calls by their code."""
    codes = Counter(gap.code for gap in gaps)
    damaged = codes.pop(DAMAGED, 0)
    found = []
    if not ids:
        found.append(CaptureGap(code=NO_RECORDS))
    if damaged:
        found.append(CaptureGap(code=RECORDS_UNREADABLE, count=damaged))
    if codes:
        detail = ", ".join(f"{code}: {count}" for code, count in codes.most_common())
        found.append(CaptureGap(code=INCOMPLETE, count=codes.total(), detail=detail))
    return found
