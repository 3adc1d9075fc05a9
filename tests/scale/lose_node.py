"""A run on two machines, one of which goes: python -m tests.scale.lose_node MODEL FOLDER."""

import sys

from tests.scale.machines import two_machines

if __name__ == "__main__":
    from tests.scale.drive import main

    with two_machines() as machines:
        lost = []

        def lose_one(done, total):
            if done >= 4 and not lost:
                lost.append(done)
                machines.lose_node()

        report = main(*sys.argv[1:], address=machines.address, progress=lose_one)
    sys.stdout.write(f"lost {len(lost)}, learnt {sum(report.learnt.values())}\n")
