"""What the pipeline's thread tells the readers of its ledger after each step: how far behind it is, and with what."""

from collections.abc import Sequence

from .intake import Intake
from .ledger import Ledger
from .supervisor import Supervisor


def publish(ledger: Ledger, intake: Intake, supervisors: Sequence[Supervisor], now: float) -> None:
    """Publish the queue, its age in microseconds and the state of the pool; count notes that were dropped."""
    oldest = min((at for each in supervisors if (at := each.oldest()) is not None), default=now)
    ledger.publish("queued_events", intake.events)
    ledger.publish("queued_bytes", intake.bytes)
    ledger.publish("oldest_backlog_us", int((now - oldest) * 1e6))
    ledger.publish("worker_restarts", sum(each.restarts for each in supervisors))
    ledger.publish("worker_threads", sum(each.kind == "thread" for each in supervisors))
    if intake.notes_dropped:
        dropped, intake.notes_dropped = intake.notes_dropped, 0
        ledger.count("annotations_dropped", dropped)
