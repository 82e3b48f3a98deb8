"""Proves the closed book from what a run wrote, without trusting the code that made the run.

Trusted are only the parsing of recorded replies (`llm.structured`), the digest of a request's fields
(`engine.step.step_key`) and the reading of the data. What the protocol allows is written down a second time here.
"""

from cts_async.protocol.audit.report import Audit, audit_run
from cts_async.protocol.audit.rules import Finding, Level

__all__ = ["Audit", "Finding", "Level", "audit_run"]
