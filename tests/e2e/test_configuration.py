"""Wrong configurations are told with every error, and nothing runs."""

import glob
import os

import pytest

from harness.relay import ROOT, free_port, run_command

FOLDER = os.path.join(ROOT, "tests", "unit", "app", "bad_configs")
FILES = sorted(glob.glob(os.path.join(FOLDER, "*.yaml")))


def test_there_are_at_least_twenty_wrong_configurations():
    assert len(FILES) >= 20


@pytest.mark.parametrize("path", FILES, ids=[os.path.basename(path) for path in FILES])
@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_wrong_configuration_is_refused_with_its_messages_and_exit_code_78(path, command):
    with open(os.path.splitext(path)[0] + ".expected", encoding="utf-8") as file:
        expected = [line.rstrip("\n") for line in file if line.strip()]
    assert expected, "an expectation must say something"
    done = run_command(command, "--config", path, timeout=10)
    assert done.returncode == 78, f"exit code {done.returncode}: {done.stderr}"
    for line in expected:
        assert line in done.stderr, f"{line!r} is not in:\n{done.stderr}"


def test_a_missing_configuration_file_is_named(tmp_path):
    done = run_command("run", "--config", str(tmp_path / "absent.yaml"))
    assert done.returncode == 78 and "absent.yaml" in done.stderr


def test_an_environment_variable_wins_over_the_file_and_is_checked_too(tmp_path):
    path = tmp_path / "relay.yaml"
    path.write_text("store: { url: 'sqlite:///tmp/app.db' }\nbrokers: { main: { url: 'null:' } }\n"
                    f"http: {{ listen: '127.0.0.1:{free_port()}' }}\n")
    assert run_command("validate", "--config", str(path)).returncode == 0
    environment = {**os.environ, "OUTBOX_RELAY__RELAY__BATCHSIZE": "minus one"}
    done = run_command("validate", "--config", str(path), env=environment)
    assert done.returncode == 78 and "OUTBOX_RELAY__RELAY__BATCHSIZE" in done.stderr
