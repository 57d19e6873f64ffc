"""The tools around the tests: what they count, and what they install."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUMMARY = "[doctest] test cases: {total} | {passed} passed | {failed} failed | {skipped} skipped"


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + text + "\n")
    path.chmod(0o755)


def says(passed, failed=0, skipped=0, code=0):
    total = passed + failed
    summary = SUMMARY.format(total=total, passed=passed, failed=failed, skipped=skipped)
    return f"echo '{summary}'; exit {code}"


def collect(build, *more):
    done = subprocess.run([ROOT / "tests" / "run", "--build", build, "--programs", *more],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines()[-1], done.stdout


def test_the_counts_of_all_programs_are_added_up(tmp_path):
    script(tmp_path / "tests" / "unit_a", says(3, skipped=1))
    script(tmp_path / "tests" / "sim", says(4))
    assert collect(tmp_path)[:2] == (0, "7 passed, 0 failed, 1 skipped")


def test_quick_programs_run_first_and_tools_are_left_out(tmp_path):
    for name in ["sim_tests", "unit_b", "conformance_x", "other", "outbox-sim"]:
        script(tmp_path / "tests" / name, says(1))
    code, last, output = collect(tmp_path)
    assert (code, last) == (0, "4 passed, 0 failed")
    assert [line.split()[0] for line in output.splitlines()[:-1]] == [
        "unit_b", "conformance_x", "sim_tests", "other"]


@pytest.mark.parametrize("program, last", [
    (says(2, failed=1, code=1), "2 passed, 1 failed"),
    (says(2, code=3), "2 passed, 1 failed"),
    (says(0), "0 passed, 1 failed"),
    ("kill -SEGV $$", "0 passed, 1 failed"),
    ("exit 0", "0 passed, 1 failed"),
], ids=["failed", "failed at its end", "ran nothing", "crashed", "said nothing"])
def test_what_did_not_end_well_counts_as_a_failure(tmp_path, program, last):
    script(tmp_path / "tests" / "unit_a", program)
    assert collect(tmp_path)[:2] == (1, last)


def test_a_program_that_hangs_is_ended_and_counts_as_a_failure(tmp_path):
    script(tmp_path / "tests" / "unit_a", "echo began; exec sleep 60")
    code, last, output = collect(tmp_path, "--time-limit", "1")
    assert (code, last) == (1, "0 passed, 1 failed")
    assert "began" in output and "no end after 1 s" in output


def test_without_any_test_the_run_fails(tmp_path):
    assert collect(tmp_path)[:2] == (1, "0 passed, 0 failed")


class Machine:
    """A machine with these packages, and with commands that only write down how they are called."""

    def __init__(self, folder, packages, user=0, sudo=True, debian=True, provides=None):
        self.calls = folder / "calls"
        self.commands = folder / "bin"
        listed = "\n".join(f"{name} ii  {(provides or {}).get(name, '')}" for name in packages)
        if debian:
            script(self.commands / "dpkg-query", f"printf '%s\\n' '{listed}'; exit 1")
            script(self.commands / "apt-get", f'echo "apt-get $*" >>{self.calls}')
        script(self.commands / "id", f"echo {user}")
        if sudo:
            script(self.commands / "sudo", f'echo sudo >>{self.calls}; exec "$@"')
        for name in ["bash", "env", "dirname", "sed", "grep", "cat"]:
            (self.commands / name).symlink_to(f"/usr/bin/{name}")

    def install(self, *groups, **environment):
        return subprocess.run(
            ["/bin/bash", ROOT / "tools" / "install-packages", *groups], capture_output=True,
            text=True, timeout=30, env={"PATH": str(self.commands), **environment})

    def called(self):
        return self.calls.read_text().splitlines() if self.calls.exists() else []


def packages_of(*groups):
    found, group = [], None
    for line in (ROOT / "packages.txt").read_text().splitlines():
        if line.startswith("["):
            group = line.strip("[]")
        elif line and not line.startswith("#") and group in groups:
            found.append(line)
    return found


def test_with_everything_there_nothing_is_called_and_nothing_said(tmp_path):
    machine = Machine(tmp_path, packages_of("build", "test"))
    done = machine.install("build", "test")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.called() == []


def test_what_another_package_provides_is_not_missing(tmp_path):
    """As with NodeSource's nodejs, which conflicts with Debian's npm."""
    there = [name for name in packages_of("test") if name not in ["nodejs", "npm"]]
    machine = Machine(tmp_path, [*there, "nodejs"], provides={"nodejs": "node-x (= 1), npm, other"})
    assert machine.install("test").returncode == 0
    assert machine.called() == []


@pytest.mark.parametrize("user", [0, 1000])
def test_only_what_is_missing_is_installed_with_sudo_where_needed(tmp_path, user):
    machine = Machine(tmp_path, [name for name in packages_of("build") if name != "cmake"], user)
    done = machine.install("build")
    assert done.returncode == 0, done.stderr
    calls = machine.called()
    installs = [line for line in calls if " install " in line]
    assert len(installs) == 1 and installs[0].endswith("--no-install-recommends cmake")
    assert any(line.endswith(" update") for line in calls)
    assert ("sudo" in calls) == (user != 0)


def test_without_root_and_sudo_the_command_for_root_is_named(tmp_path):
    machine = Machine(tmp_path, packages_of("build")[1:], user=1000, sudo=False)
    done = machine.install("build")
    assert done.returncode == 1
    assert f"apt-get install --no-install-recommends {packages_of('build')[0]}" in done.stderr
    assert machine.called() == []


def test_on_another_system_all_packages_are_named_and_can_be_vouched_for(tmp_path):
    machine = Machine(tmp_path, [], debian=False)
    done = machine.install("build", "test")
    assert done.returncode == 1
    for name in packages_of("build", "test"):
        assert name in done.stderr
    assert machine.install("build", OUTBOX_SKIP_PACKAGES="1").returncode == 0


def test_every_script_can_be_run():
    for name in [".ci/run", "tests/run", "tests/bench/run", "tools/install-packages", "tools/lint"]:
        assert os.access(ROOT / name, os.X_OK), name
