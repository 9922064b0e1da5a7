"""Say what a GGUF file is before anything loads it: its role, whether it can run as a target, and its digest.

uv run python examples/inspect_artifact.py [MODEL.gguf]
"""

import sys
from pathlib import Path

from power_core.artifacts import check_target, describe_role, identify, scan_header
from power_core.testing import default_target_path

path = Path(sys.argv[1]) if len(sys.argv) > 1 else default_target_path()

header = scan_header(path)  # metadata and tensor table only, with bounds on every count
role = describe_role(header)
print(f"{path.name}: {role.sentence}")
print(f"role: {role.role}")

report = check_target(header)
print(f"checks: {sum(check.passed for check in report.checks)} of {len(report.checks)} passed")
for check in report.failures:
    print(f"  failed {check.id}: {check.message}")

identity = identify(header)  # reads every byte
print(f"sha256: {identity.sha256} ({identity.size_bytes:,} bytes)")
