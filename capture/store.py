"""`CaptureStore`: the directory of record files, for reading, and for clearing before a fresh run.

Needs no server and shares no memory with one but the ledger files. Nothing it finds raises: a damaged line is
counted, a missing call is a gap, and `settle` returns at its timeout with the names of what is pending.
"""

import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread

from pipeline import clearing
from pipeline import gaps as gap_files
from pipeline.account import held_gaps
from pipeline.clearing import Cleared
from pipeline.fences import Fences
from pipeline.gaps import GAP_SUFFIX, RECORD_SUFFIX, Gap
from pipeline.settling import PendingCall, Settled, Settling
from pipeline.stems import stem_of

from .absence import absence
from .following import Following, aread_bytes
from .reading import (
    Reading,
    Scan,
    StoredRecord,
    parse_records,
    read_bytes,
    scan_records,
    tail_is_torn,
    why_closed,
    with_notes,
)
from .status import Status, read_status
from .streaming import RecordStream

__all__ = ["CaptureStore", "Cleared", "PendingCall", "Settled", "StoredRecord"]

FIRST_POLL_S = 0.002
LONGEST_POLL_S = 0.05


class CaptureStore:
    """Records, gaps and settling of one capture directory. Cheap to make; holds no open file."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def settle(self, rollout_id: str | None = None, timeout: float = 30.0) -> Settled:
        """Wait until every call of a rollout that started before now is in its file, or is named as a gap.

        `timeout` is in seconds. Never raises at its end: what is still pending is named in the answer. Without a
        rollout it waits for the calls whose response is over, in all rollouts, and not for open ones.
        """
        with closing(self._settling(rollout_id)) as settling:
            self._wait(settling, timeout)
            return settling.result(self.gaps(rollout_id))

    async def asettle(self, rollout_id: str | None = None, timeout: float = 30.0) -> Settled:  # noqa: ASYNC109 - it never raises
        """Do what `settle` does, without holding up the event loop; asyncio and trio."""
        in_thread = anyio.to_thread.run_sync
        with closing(await in_thread(self._settling, rollout_id)) as settling:
            wait_s = FIRST_POLL_S
            while not await in_thread(settling.poll) and (left := timeout - settling.waited_s) > 0:
                await anyio.sleep(min(wait_s, left))
                wait_s = min(wait_s * 2, LONGEST_POLL_S)
            return settling.result(await in_thread(self.gaps, rollout_id))

    def expect(self, rollout_id: str, timeout: float = 30.0) -> Settled:
        """Do what `settle` does for a rollout that must have calls.

        Raises `NoCallsError`, which says what is there instead, where it has neither records nor gaps nor calls on
        their way: its calls went elsewhere, or were never made.
        """
        settled = self.settle(rollout_id, timeout)
        if not (settled.pending or settled.gaps or self.read_available(rollout_id).records):
            raise absence(self.directory, self.stems(), self.rollouts(), rollout_id)
        return settled

    async def aexpect(self, rollout_id: str, timeout: float = 30.0) -> Settled:  # noqa: ASYNC109 - as `asettle`
        """Do what `expect` does, without holding up the event loop; asyncio and trio."""
        settled = await self.asettle(rollout_id, timeout)
        return settled if settled.pending else await anyio.to_thread.run_sync(self.expect, rollout_id, 0.0)

    def clear(self, rollout_ids: Iterable[str], timeout: float = 5.0) -> Cleared:
        """Remove the files of rollouts before a fresh run; nothing of the calls that had started comes back.

        Calls that are on their way are waited for, at most `timeout` seconds in all; those that are not finished then
        are fenced off: they are served to their end and recorded nowhere. Clear before the first call of the new run:
        a call that starts while this runs may be on either side. Must run on the host of the servers. Raises OSError
        where the directory cannot be written, and TypeError for a single id in place of several.
        """
        if isinstance(rollout_ids, str):
            raise TypeError("clear takes several rollout ids; for one, give [rollout_id]")
        stems = {stem_of(rollout_id): rollout_id for rollout_id in rollout_ids}
        self._finish(stems, time.monotonic() + timeout)
        found = clearing.present(self.directory, stems)
        fenced = [call_id for stem in found for call_id in sorted(clearing.clear(self.directory, stem))]
        if found:
            clearing.end_clear(self.directory)
        removed = tuple(stems[stem] for stem in found)
        return Cleared(removed, tuple(fenced), tuple(clearing.unaccountable(self.directory)))

    async def aclear(self, rollout_ids: Iterable[str], timeout: float = 5.0) -> Cleared:  # noqa: ASYNC109 - as `asettle`
        """Do what `clear` does, without holding up the event loop; asyncio and trio."""
        return await anyio.to_thread.run_sync(self.clear, rollout_ids, timeout)

    def read(self, rollout_id: str) -> list[StoredRecord]:
        """Return a rollout's readable records, by `completed_at`, then by line; empty where there are none."""
        return self.read_available(rollout_id).records

    async def aread(self, rollout_id: str) -> list[StoredRecord]:
        """Do what `read` does on asynchronous files; asyncio and trio."""
        stem = stem_of(rollout_id)
        text = await aread_bytes(gap_files.record_path(self.directory, stem))
        notes = await aread_bytes(gap_files.note_path(self.directory, stem))
        reading = await anyio.to_thread.run_sync(parse_records, text)
        return with_notes(reading, notes).records

    def read_available(self, rollout_id: str) -> Reading:
        """Return `(records, damaged)`: what can be read, and how many lines cannot.

        A tail without its line end counts as damage only if no writer holds the file.
        """
        return self.read_stem(stem_of(rollout_id))

    def stream(self, rollout_id: str) -> RecordStream:
        """Return what iterates over a rollout's records, one line in memory at a time, in the order of the file.

        For views of rollouts that do not fit into memory. Its `found` tells, after the last one, how many lines
        cannot be read.
        """
        return RecordStream(self.directory, stem_of(rollout_id))

    def follow(self, rollout_id: str) -> AsyncIterator[StoredRecord]:
        """Yield records as they are appended, from the first one, until the caller stops.

        Waits for a file that is not there yet; goes on across torn lines and a file that was replaced.
        """
        path = gap_files.record_path(self.directory, stem_of(rollout_id))
        return Following(path)

    def rollouts(self) -> list[str]:
        """Return the rollout ids that have records or gaps, sorted; uncorrelated calls are not among them."""
        return sorted({name for stem in self.stems() if (name := self._rollout_of(stem)) is not None})

    def stems(self) -> list[str]:
        """Return the names of all record and gap files without their endings, uncorrelated ones included."""
        suffixes = (RECORD_SUFFIX, GAP_SUFFIX)
        return sorted(
            {
                path.name.removesuffix(suffix)
                for suffix in suffixes
                for path in self.directory.glob("*" + suffix)
            }
        )

    def traces(self) -> set[str]:
        """Return the names of all files, without their endings, and of those that calls on their way will have.

        A run that was killed may have left no more than that. Calls of runs that were cleared are none.
        """
        fences = Fences(self.directory)
        left = clearing.unfinished(self.directory)
        coming = {stem for stem, ids in left.items() if not all(fences.hold(stem, each) for each in ids)}
        return coming.union(self.stems())

    def gaps(self, rollout_id: str | None = None) -> list[Gap]:
        """Return what is known to be missing of a rollout, or of all: lost, dropped, failed calls, damaged lines."""
        stems = self.stems() if rollout_id is None else [stem_of(rollout_id)]
        held = held_gaps(self.directory, None if rollout_id is None else stems[0])
        stems = sorted({*stems, *(stem for stem, _ in held)})
        return [gap for stem in stems for gap in self.gaps_beside(stem, self._scan(stem), held)]

    def status(self) -> Status:
        """Look at every server process that writes here: what it counts, and what is in flight.

        A server process that died is accounted for as `settle` would, and is then among the retired.
        """
        return read_status(self.directory)

    def gaps_beside(
        self, stem: str, found: Reading | Scan, held: Iterable[tuple[str, Gap]] | None = None
    ) -> list[Gap]:
        """Return what is missing of one file, given what was read of it; `held` are those not yet in a file."""
        text = read_bytes(gap_files.gap_path(self.directory, stem))
        named = [] if text is None else gap_files.parse_gaps(text)
        known = {gap.model_call_id for gap in named} | found.ids
        held = held_gaps(self.directory, stem) if held is None else held
        named += [gap for name, gap in held if name == stem and gap.model_call_id not in known]
        missing = [gap for gap in named if gap.model_call_id not in found.ids]
        damaged = [Gap(model_call_id=None, code=gap_files.DAMAGED)] * found.damaged
        return missing + damaged + list(self._closed(stem))

    def read_stem(self, stem: str) -> Reading:
        """Do what `read_available` does for a file by its name, as `stems` gives it."""
        text, torn = self._text(stem)
        reading = parse_records(text)
        reading = Reading(reading.records, reading.damaged + torn)
        return with_notes(reading, read_bytes(gap_files.note_path(self.directory, stem)))

    def _finish(self, stems: Iterable[str], deadline: float) -> None:
        """Let the calls of these rollouts that are on their way end, as far as there is time."""
        for stem in clearing.unfinished(self.directory).keys() & set(stems):
            with closing(Settling(self.directory, stem, time.monotonic)) as settling:
                self._wait(settling, deadline - time.monotonic())

    @staticmethod
    def _wait(settling: Settling, timeout: float) -> None:
        wait_s = FIRST_POLL_S
        while not settling.poll() and (left := timeout - settling.waited_s) > 0:
            time.sleep(min(wait_s, left))
            wait_s = min(wait_s * 2, LONGEST_POLL_S)

    def _closed(self, stem: str) -> Iterator[Gap]:
        """Yield a gap for each file of a rollout that is there and cannot be read, so that it looks not empty."""
        for suffix in gap_files.SUFFIXES:
            path = self.directory / (stem + suffix)
            if (reason := why_closed(path)) is not None:
                yield Gap(model_call_id=None, code=gap_files.UNREADABLE, detail=f"{path.name}: {reason}")

    def _scan(self, stem: str) -> Scan:
        text, torn = self._text(stem)
        found = scan_records(text)
        return Scan(found.ids, found.damaged + torn)

    def _text(self, stem: str) -> tuple[bytes, bool]:
        """Return a file's content, and whether its tail is damage."""
        path = gap_files.record_path(self.directory, stem)
        text = read_bytes(path) or b""
        return text, bool(text) and not text.endswith(b"\n") and tail_is_torn(path, len(text))

    def _rollout_of(self, stem: str) -> str | None:
        """Return the id behind a file name: the name itself, or what the file's first record says."""
        if stem_of(stem) == stem:
            return stem
        records = self.read_stem(stem).records
        return records[0].rollout_id if records else None

    def _settling(self, rollout_id: str | None) -> Settling:
        return Settling(self.directory, None if rollout_id is None else stem_of(rollout_id), time.monotonic)
