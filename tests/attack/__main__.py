"""``make attack``, or ``python -m tests.attack [SEED [SHARE]]``: another seed, or a share of the attacks to try it out.

Prints a table of counts. A whole round is written down in ``benchmarks/records/attack.json``, which
``docs/reliability.md`` shows. The exit code is 1 if any attack succeeded.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tests.attack.every import attack_all, table_line

from gddsg.bench.revision import code_revision
from gddsg.files import replace_file

RECORD = Path(__file__).parents[2] / "benchmarks" / "records" / "attack.json"


def main(seed: int, share: float) -> int:
    """Attack, print and write down."""
    rows, started = [], time.monotonic()
    for row in attack_all(seed, share):
        rows.append(row)
        sys.stdout.write(table_line(row) + "\n")
        for failure in row["failures"][:5]:
            sys.stdout.write(f"    {failure[:500]}\n")
        sys.stdout.flush()
    minutes = round((time.monotonic() - started) / 60, 1)
    if share == 1:
        record = {"revision": code_revision(), "seed": seed, "minutes": minutes, "attacks": rows}
        replace_file(RECORD, json.dumps(record, indent=1).encode() + b"\n")
    failed = sum(len(row["failures"]) for row in rows)
    sys.stdout.write(f"{sum(row['tried'] for row in rows)} attacks in {minutes} minutes, {failed} succeeded.\n")
    return 1 if failed else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(int(given[0]) if given else 0, float(given[1]) if len(given) > 1 else 1.0))
