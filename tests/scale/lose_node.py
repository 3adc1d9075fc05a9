"""A run on two machines, one of which goes: python -m tests.scale.lose_node MODEL FOLDER."""

import os
import secrets
import sys

if __name__ == "__main__":
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0",
        RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(32),
    )
    from ray.cluster_utils import Cluster
    from tests.scale.drive import main

    from gddsg.working_folder import working_folder

    with working_folder() as folder:
        usual = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args={**usual, "temp_dir": str(folder)})
        other = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
        lost = []

        def lose_one(done, total):
            if done >= 4 and not lost:
                lost.append(done)
                cluster.remove_node(other, allow_graceful=False)

        report = main(*sys.argv[1:], address=cluster.address, progress=lose_one)
        cluster.shutdown()
        sys.stdout.write(f"lost {len(lost)}, learnt {sum(report.learnt.values())}\n")
