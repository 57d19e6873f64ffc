"""Completion in real shells, and the man page."""

import os
import pty
import re
import select
import shlex
import subprocess
import time

import pytest
from harness.relay import binary, run_command


def commands_of(words=()):
    """Every command as a tuple of words, found by asking for help."""
    text = run_command(*words, "--help").stdout
    below = text.partition("Subcommands:\n")[2]
    found = []
    for line in below.splitlines():
        name = re.match(r"  (\S+)", line)
        if name:
            found.append((*words, name.group(1)))
            found += commands_of((*words, name.group(1)))
    return found


@pytest.fixture(scope="module")
def commands():
    found = commands_of()
    assert ("run",) in found and ("dead-letters", "list") in found
    return found


def flags_of(words):
    text = run_command(*words, "--help").stdout
    return set(re.findall(r"(?:^|[ ,])(--[a-z][a-z-]*)", re.sub(r"^\s+[^-\s].*$", "", text,
                                                               flags=re.MULTILINE)))


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        done = run_command("completion", shell)
        assert done.returncode == 0, done.stderr
        (folder / shell).write_text(done.stdout)
    (folder / "settings.yaml").write_text("")
    return folder


# Readline breaks words at these; completion functions see them as words of their own.
BREAKS = re.compile(r"([=:])")


def bash(scripts, line):
    """What bash offers for the line, cursor at its end: the script is run by bash itself."""
    words = []
    for word in line.split(" "):
        words += [part for part in BREAKS.split(word) if part] or [""]
    code = (f"source {shlex.quote(str(scripts / 'bash'))}\n"
            f"COMP_WORDS=({' '.join(map(shlex.quote, words))})\n"
            f"COMP_CWORD={len(words) - 1}\n"
            "function_name=$(complete -p outbox-relay | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
            "\"$function_name\"\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n")
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True,
                          cwd=scripts, timeout=20)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return set(done.stdout.split())


def fish(scripts, line):
    code = f"source {shlex.quote(str(scripts / 'fish'))}; complete -C {shlex.quote(line)}"
    home = scripts / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(["fish", "--no-config", "-c", code], capture_output=True, text=True,
                          cwd=scripts, env={**os.environ, "HOME": str(home)}, timeout=20)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return {entry.split("\t")[0] for entry in done.stdout.splitlines()}


SHELLS = pytest.mark.parametrize("complete", [bash, fish], ids=["bash", "fish"])


@SHELLS
def test_commands_are_completed_at_each_level(scripts, commands, complete):
    for parent in {words[:-1] for words in commands}:
        line = " ".join(["outbox-relay", *parent, ""])
        wanted = {words[-1] for words in commands if words[:-1] == parent}
        assert wanted <= complete(scripts, line), line
    assert complete(scripts, "outbox-relay print") == {"print-config"}
    assert "redrive" in complete(scripts, "outbox-relay --store sqlite:a dead-letters re")


@SHELLS
def test_every_flag_of_every_command_is_completed(scripts, commands, complete):
    for words in commands:
        offered = complete(scripts, " ".join(["outbox-relay", *words, "--"]))
        assert flags_of(words) <= offered, words


@SHELLS
def test_limited_values_are_completed_and_only_where_they_belong(scripts, complete):
    assert complete(scripts, "outbox-relay healthcheck --kind ") == {"live", "ready", "startup"}
    assert complete(scripts, "outbox-relay dead-letters list -o js") == {"json", "jsonl"}
    assert {"bash", "zsh", "fish"} <= complete(scripts, "outbox-relay completion ")
    assert not complete(scripts, "outbox-relay run --table r")


@SHELLS
def test_presets_are_completed_all_that_there_are(scripts, complete):
    told = run_command("init", "--store", "sqlite:a.db", "--preset", "none").stderr
    presets = set(re.search(r"it has: ([a-z, -]+)", told).group(1).split(", "))
    assert len(presets) > 3
    assert complete(scripts, "outbox-relay run --preset ") == presets
    assert complete(scripts, "outbox-relay --preset deb") == {"debezium"}


def test_bash_completes_paths_and_values_behind_an_equals_sign(scripts):
    assert {"store.preset=", "relay.batchSize="} <= bash(scripts, "outbox-relay run --set=")
    assert bash(scripts, "outbox-relay run --set=store.pre") == {"store.preset="}
    assert "dotnet" in bash(scripts, "outbox-relay run --set store.preset=")
    assert {"store.columns=", "store.columns.id="} <= bash(scripts, "outbox-relay run --set store.c")
    assert not bash(scripts, "outbox-relay run --set store.columns=")


@SHELLS
def test_files_are_completed_for_config(scripts, complete):
    assert "settings.yaml" in complete(scripts, "outbox-relay run --config set")


def test_bash_completes_the_paths_of_settings_and_their_values(scripts):
    paths = bash(scripts, "outbox-relay run --set ")
    assert {"relay.batchSize=", "store.url=", "brokers.main.publishTimeout="} <= paths
    assert bash(scripts, "outbox-relay run --set relay.bat") == {"relay.batchSize="}
    assert bash(scripts, "outbox-relay run --set relay.ordering=") == {"none", "key"}
    assert bash(scripts, "outbox-relay run --set relay.ordering=k") == {"key"}
    assert bash(scripts, "outbox-relay run --set retry.outageGuard=") == {"true", "false"}
    assert bash(scripts, "outbox-relay run --set log.level=debug --set log.format=j") == {"json"}
    assert not bash(scripts, "outbox-relay run --set relay.batchSize=")
    assert "--broker" in bash(scripts, "outbox-relay run --set relay.ordering=key --br")


def test_fish_completes_the_paths_of_settings_and_their_values(scripts):
    assert "relay.batchSize=" in fish(scripts, "outbox-relay run --set relay.")
    assert "relay.ordering=key" in fish(scripts, "outbox-relay run --set relay.ordering=")


def test_zsh_reads_its_script_and_completes_by_it(scripts):
    """In a real zsh: what compadd is given for a line, with the words that zsh would set."""
    def zsh(*words):
        quoted = " ".join(map(shlex.quote, words))
        code = ("compdef() { :; }; compset() { :; }; _files() { print -l FILES; }\n"
                "compadd() { while [[ $1 == -* ]]; do [[ $1 == -- ]] && { shift; break; }\n"
                "  [[ $1 == -S ]] && shift; shift; done; print -l -- \"$@\"; }\n"
                f"source {shlex.quote(str(scripts / 'zsh'))}\n"
                f"words=({quoted}); CURRENT={len(words)}; PREFIX={shlex.quote(words[-1])}\n"
                "_outbox_relay\n")
        done = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, timeout=20)
        assert not done.stderr, done.stderr
        return set(done.stdout.split())

    assert {"run", "dead-letters", "--config"} <= zsh("outbox-relay", "")
    assert {"list", "redrive"} <= zsh("outbox-relay", "dead-letters", "")
    assert zsh("outbox-relay", "healthcheck", "--kind", "") == {"live", "ready", "startup"}
    assert "relay.batchSize=" in zsh("outbox-relay", "run", "--set", "relay.")
    assert zsh("outbox-relay", "run", "--set", "relay.ordering=") == {"none", "key"}
    assert zsh("outbox-relay", "run", "--config", "") == {"FILES"}


def test_the_bash_script_is_sound(scripts):
    assert subprocess.run(["bash", "-n", scripts / "bash"], check=False).returncode == 0
    again = run_command("completion", "bash").stdout
    assert again == (scripts / "bash").read_text(), "the same program writes the same script"


def test_an_unknown_shell_is_a_usage_error():
    assert run_command("completion", "tcsh").returncode == 2
    assert run_command("completion").returncode == 2


def man_text(page):
    shown = subprocess.run(["man", "--warnings", "-l", "-"], input=page, capture_output=True,
                           text=True, timeout=20,
                           env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8",
                                "MANPAGER": "cat", "MAN_KEEP_FORMATTING": ""})
    assert shown.returncode == 0 and not shown.stderr, shown.stderr
    return re.sub(".\b", "", re.sub("\x1b\\[[0-9;]*m", "", shown.stdout))


def test_the_man_page_reads_without_a_warning_and_holds_every_command_and_flag(commands):
    done = run_command("man")
    assert done.returncode == 0, done.stderr
    text = man_text(done.stdout)
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "CONFIGURATION",
                    "ENVIRONMENT", "FILES", "EXIT STATUS"):
        assert re.search(rf"^{heading}$", text, re.MULTILINE), heading
    common = text.partition("\nCOMMANDS\n")[0]
    sections = dict(zip(*[iter(re.split(r"^   (\S.*)$", text.partition("\nCOMMANDS\n")[2],
                                        flags=re.MULTILINE)[1:])] * 2))
    for words in commands:
        section = sections[" ".join(words)]
        for flag in flags_of(words):
            assert re.search(rf"{re.escape(flag)}\b", section) or \
                re.search(rf"{re.escape(flag)}\b", common), (words, flag)
    assert re.search(r"^ +78\s+The configuration is wrong\.$", text, re.MULTILINE)


def test_completion_works_in_an_interactive_bash(scripts, tmp_path):
    """The whole way once: a terminal, a tab, and what readline makes of it."""
    (tmp_path / "bin").mkdir()
    os.symlink(binary(), tmp_path / "bin" / "outbox-relay")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"PS1": "> ", "TERM": "dumb", "HOME": str(tmp_path),
                           "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    seen = ""

    def wait_for(text):
        nonlocal seen
        deadline = time.monotonic() + 20
        while text not in seen:
            assert time.monotonic() < deadline, f"{text!r} not in {seen!r}"
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 4096).decode(errors="replace")

    try:
        os.write(terminal, f"source {scripts / 'bash'}; echo rea''dy\n".encode())
        wait_for("ready\r\n")
        os.write(terminal, b"outbox-relay prin\t--sch\t")
        wait_for("outbox-relay print-config --schema")
        os.write(terminal, b"\x15outbox-relay run --set relay.ordering=k\t")
        wait_for("relay.ordering=key")
    finally:
        os.close(terminal)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
