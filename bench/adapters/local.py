"""Runs the benchmark hardbyte/postgresql-job-queue-benchmarking without Docker, with Holdfast as an additional system.

    local.py <checkout of the benchmark> run --systems holdfast,pgboss --phase warmup=warmup:30s …

The benchmark's own harness runs unchanged. This program replaces only what the harness starts with Docker: the server, which runs with the
benchmark's postgres.conf, and the adapters that are programs for Node.js. `PG_BIN` is the directory of PostgreSQL's programs, and `NODE` is the
program that runs the adapters. Needs the harness's Python packages: psycopg, pandas, matplotlib, numpy and pydantic.
"""

import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile

checkout = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(checkout))

from bench_harness import adapters, orchestrator  # noqa: E402

bin_dir = pathlib.Path(os.environ["PG_BIN"])
node = os.environ.get("NODE", "node")
home = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
data = home / "data"
# PostgreSQL refuses to run as root.
user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
if user:
    os.chown(home, user.pw_uid, user.pw_gid)


def program(name, *arguments, check=True):
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    subprocess.run([bin_dir / name, *arguments], cwd=home, check=check, stdout=subprocess.DEVNULL, **identity)


def start(_image):
    if not data.exists():
        password = home / "password"
        password.write_text(adapters.PG_PASS)
        password.chmod(0o644)
        program("initdb", "-D", data, "-U", adapters.PG_USER, f"--pwfile={password}", "--auth=scram-sha-256", "--no-locale", "-E", "UTF8")
        # The server may not be allowed to read the checkout.
        shutil.copy(checkout / "postgres.conf", home / "postgres.conf")
    options = f"-c config_file={home}/postgres.conf -c listen_addresses=127.0.0.1 -c port={adapters.PG_PORT} -c unix_socket_directories={home}"
    program("pg_ctl", "start", "-w", "-D", data, "-l", home / "log", "-o", options)


def stop(_image):
    if data.exists():
        program("pg_ctl", "stop", "-w", "-m", "fast", "-D", data, check=False)


def remove(image):
    stop(image)
    shutil.rmtree(data, ignore_errors=True)


def restart(image):
    stop(image)
    start(image)


orchestrator.start_postgres = start
orchestrator.stop_postgres = remove
orchestrator._compose_start_postgres = start
orchestrator._compose_stop_postgres = stop
orchestrator._restart_postgres = restart


def register(system, bench_dir, main):
    def build(skip):
        if not (skip or (bench_dir / "node_modules").exists()):
            raise RuntimeError(f"Install the packages of {bench_dir} first")

    def launch(manifest, overrides):
        argv = [node, str(bench_dir / main)]
        return adapters.LaunchSpec(argv=argv, env=adapters._base_env(manifest, overrides), cwd=str(bench_dir))

    adapters.ADAPTERS[system] = adapters.AdapterEntry(bench_dir=bench_dir, builder=build, launcher=launch)


register("pgboss", checkout / "pgboss-bench", "main.js")
register("holdfast", pathlib.Path(__file__).resolve().parent / "holdfast-bench", "main.ts")

try:
    sys.exit(orchestrator.main(sys.argv[1:]))
finally:
    remove(None)
    shutil.rmtree(home, ignore_errors=True)
