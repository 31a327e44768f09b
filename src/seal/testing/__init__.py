"""For whoever brings an environment: the checker, and hypothesis strategies for calls.

from seal.testing import check_env

def test_my_environment():
report = check_env(environment)
assert report.passed, report
"""

from seal.testing.check import check_env
from seal.testing.report import CheckReport, Row
from seal.testing.strategies import calls

__all__ = ["CheckReport", "Row", "calls", "check_env"]
