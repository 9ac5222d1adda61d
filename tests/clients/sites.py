"""A captured server of any make, and what a raw client wants to know of its records."""

from pathlib import Path
from typing import NamedTuple

from capture import CaptureStore, StoredRecord


class Site(NamedTuple):
    """A captured server and where it records."""

    url: str
    store: CaptureStore

    def records(self, rollout: str, count: int) -> list[StoredRecord]:
        """Settle a rollout and return its records by request id; they are exactly so many, one a call."""
        settled = self.store.settle(rollout)
        assert settled.complete, settled
        records = sorted(self.store.read(rollout), key=lambda record: int(record.client.request_id or ""))
        assert [record.client.request_id for record in records] == [str(number) for number in range(count)]
        return records

    async def begun(self, rollout: str) -> None:
        """Wait until the server has a call of this rollout."""
        while not (await self.store.asettle(rollout, timeout=0.02)).pending and not self.store.read(rollout):
            pass


def environ(folder: Path) -> dict[str, str]:
    """Return the settings of a server that records beside its log."""
    return {
        "CAPTURE_ENABLED": "1",
        "CAPTURE_DIRECTORY": str(folder / "records"),
        "CAPTURE_APP": "tests.clients.apps:lingering",
    }
