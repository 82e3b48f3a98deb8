"""The closed book proved from what a run wrote, without trusting the code that made the run.

Trusted are only: the reading of remembered replies (`llm/structured`), the digest of a request's fields
(`engine/step.step_key`), and the reading of the data. What the protocol allows is written down here again.
"""

from cts_async.protocol.audit.findings import Audit, Finding, Level
from cts_async.protocol.audit.run import audit_run

__all__ = ["Audit", "Finding", "Level", "audit_run"]
