#!/usr/bin/python3
"""Measures the relay against the same work done without it, and reports ratios.

Both sides of each pair run in turns, at least five pairs, the median of the pairs' ratios counts,
and all data is in memory. It is no test: nothing fails on a number. On a busy machine nothing is
judged. OUTBOX_EVENTS may name a file of JSON lines with event_type, ordering_key and payload;
without it, events of 1 KB are made up.
"""

import argparse
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.append(str(ROOT / "tests" / "e2e"))

import machine  # noqa: E402
import measures  # noqa: E402
import outboxes  # noqa: E402
import pair_measures  # noqa: E402
import pair_sides  # noqa: E402
import results  # noqa: E402
import sides  # noqa: E402

# By name: from SQLite, and from PostgreSQL.
ALL = {**measures.ALL, **pair_measures.ALL}
GROUPS = {"sqlite": list(measures.ALL), "postgres": list(pair_measures.ALL)}
MEMORY_NEEDED = 4 << 30


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/bench"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[*GROUPS, *ALL], metavar="NAME",
                        help="of " + ", ".join(ALL) + "; or all of " + " or ".join(GROUPS))
    parser.add_argument("--wait", type=float, default=0, metavar="SECONDS",
                        help="for the machine to become quiet")
    parser.add_argument("--anyway", action="store_true",
                        help="measure on a busy machine, too, without judging")
    options = parser.parse_args()
    if options.pairs < 1:
        parser.error("--pairs must be at least 1")
    return options


def revision():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT,
                          capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def chosen(names):
    return [one for name in names or GROUPS for one in GROUPS.get(name, [name])]


def run_one(name, bench, pair, machine_was_busy):
    print(f"{name} ...", end="", flush=True)
    began = time.monotonic()
    found = []
    with machine.Neighbours(pair.servers.cpu_seconds) as neighbours:
        try:
            for result in ALL[name](pair if name in pair_measures.ALL else bench):
                found.append(result)
        except (RuntimeError, AssertionError, OSError, sqlite3.Error,
                subprocess.SubprocessError) as error:
            # The other measurements are worth having all the same.
            print(f" could not be measured: {error}", end="")
    print(f" {time.monotonic() - began:.0f} s, others took {neighbours.share:.0%} of the machine",
          flush=True)
    for result in found:
        result.neighbours = neighbours.share
        result.machine_was_busy = machine_was_busy
    return found


def show(about, found):
    print(f"\n{about['date']}, {about['revision']}, {about['machine']}, load before "
          f"{about['load_before']:.2f}, {about['pairs']} pairs, events of "
          f"{about['event_bytes']:,} bytes\n")
    print(results.table(found))
    notes = [f"{result.what}: {note}" for result in found for note in result.notes]
    if notes:
        print("\n" + "\n".join(notes))


def measure(options, folder, servers, machine_was_busy):
    events = outboxes.Events(folder)
    tools = sides.Tools(str(ROOT / options.build), folder)
    bench = measures.Bench(folder, tools, events, options.pairs)
    pair = pair_sides.Pair(bench, servers)
    about = {"date": time.strftime("%Y-%m-%d"), "revision": revision(),
             "machine": machine.description(), "load_before": machine.load(),
             "pairs": options.pairs, "event_bytes": round(events.mean_bytes)}
    found = []
    for name in chosen(options.only):
        found += run_one(name, bench, pair, machine_was_busy)
    if not found:
        return
    show(about, found)
    path = ROOT / "build" / "benchmarks.json"
    results.write_json(path, about, found)
    print(f"\nAll values: {path.relative_to(ROOT)}")


def main():
    options = parse_arguments()
    os.environ["OUTBOX_RELAY_BIN"] = str(ROOT / options.build / "outbox-relay")
    if machine.free_memory() < MEMORY_NEEDED:
        print(f"Nothing was measured: {machine.MEMORY_FOLDER} has less than 4 GiB left.")
        return
    quiet = machine.wait_until_quiet(options.wait)
    if not quiet and not options.anyway:
        print(f"Nothing was measured: the machine is busy (load {machine.load():.1f}, it must be "
              f"at most {machine.QUIET_LOAD}). Try again later, or with --wait 600, or with "
              "--anyway to see figures that are not judged.")
        return
    with tempfile.TemporaryDirectory(prefix="outbox-bench-", dir=machine.MEMORY_FOLDER) as folder:
        servers = pair_sides.Servers()
        try:
            measure(options, folder, servers, not quiet)
        finally:
            servers.close()


if __name__ == "__main__":
    main()
