"""The closed book proved from what a run wrote, without trusting the code that made the run.

Trusted are only: the reading of remembered replies (`llm/structured`), the digest of a request's fields
(`engine/step.step_key`), and the reading of the data. What the protocol allows is written down here again.
"""

from cts_async.protocol.audit.report import Audit, audit_run
from cts_async.protocol.audit.rules import Finding, Level

__all__ = ["Audit", "Finding", "Level", "audit_run"]
