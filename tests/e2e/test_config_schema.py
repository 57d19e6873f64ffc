"""The schema that the program prints, against what the program itself accepts and refuses."""

import glob
import json
import os
import random
import re

import pytest
import yaml
from harness.relay import ROOT, run_command, to_yaml
from jsonschema import Draft202012Validator

BAD = sorted(glob.glob(os.path.join(ROOT, "tests", "unit", "app", "bad_configs", "*.yaml")))
# What the program says of a key that is none, and of values of a wrong kind.
STRUCTURAL = re.compile(r"unknown key|secrets are read from files|must be a single value|"
                        r"must be a list|must be a map|is not one of|must be true or false|"
                        r"must be a whole number|must be a number|needs a unit|is not a duration|"
                        r"is not a size|has no value|is not an address|this broker has no settings|"
                        r"a broker's name has|must be between \d+ and \d+$", re.MULTILINE)


class Loader(yaml.SafeLoader):
    """YAML as editors read it: a date is a text there."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}


def read(text, loader=Loader):
    return yaml.load(text, Loader=loader)


@pytest.fixture(scope="module")
def validator():
    done = run_command("print-config", "--schema")
    assert done.returncode == 0, done.stderr
    schema = json.loads(done.stdout)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def errors(validator, settings):
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
            for error in validator.iter_errors(settings)]


def examples():
    found = []
    for page in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))) + [
            os.path.join(ROOT, "README.md")]:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for number, block in enumerate(re.findall(r"^```yaml \S+\n(.*?)^```", text,
                                                  re.MULTILINE | re.DOTALL)):
            found.append(pytest.param(block, id=f"{os.path.basename(page)}-{number}"))
    return found


@pytest.mark.parametrize("text", examples())
def test_the_examples_of_the_documentation_fit_the_schema(validator, text):
    assert errors(validator, read(text)) == []


def test_the_defaults_and_all_settings_in_force_fit_the_schema(validator):
    printed = run_command("print-config", "--defaults")
    assert printed.returncode == 0
    assert errors(validator, read(printed.stdout)) == []
    # The same with every value as a text, as some readers give it.
    assert errors(validator, read(printed.stdout, yaml.BaseLoader)) == []


def leaves(schema, path=()):
    """(path, subschema) of each setting."""
    for name, below in schema.get("properties", {}).items():
        yield from leaves(below, (*path, name)) if "properties" in below or name == "brokers" \
            else [((*path, name), below)]
    if isinstance(schema.get("additionalProperties"), dict):
        yield from leaves(schema["additionalProperties"], (*path, "main"))


def nested(path, value):
    for name in reversed(path):
        value = {name: value}
    return value


def test_every_setting_is_described_and_its_default_fits(validator):
    found = list(leaves(validator.schema))
    assert len(found) > 60
    for path, schema in found:
        assert schema["description"].endswith("."), path
        assert errors(validator, nested(path, schema["default"])) == [], path
        assert errors(validator, nested(path, None)) != [], f"{path} takes no value at all"
        assert errors(validator, nested((*path[:-1], "no such key"), 1)) != [], path


@pytest.mark.parametrize("path", BAD, ids=[os.path.basename(path) for path in BAD])
def test_what_is_wrong_in_its_kind_is_refused_by_the_schema_too(validator, path):
    with open(os.path.splitext(path)[0] + ".expected", encoding="utf-8") as file:
        expected = file.read()
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        settings = read(text)
    except yaml.YAMLError:
        # It never comes to a schema; the program must have said the same.
        assert re.search("YAML|a key must be a plain text", expected), expected
        return
    if STRUCTURAL.search(expected):
        assert errors(validator, settings) != [], expected


# Values by the way they are written; some fit a kind of setting, some don't.
VALUES = [0, 1, 7, 100, 0.5, 2.5, -1, True, False, None, "", "7", "30s", "1h30m", "never", "64MiB",
          "none", "key", "full", "text", "debug", "0.0.0.0:80", "[::1]:80", "${NO_SUCH:-30s}",
          "$$", [], ["a"], ["1s", "2m"], [1], [None], {}, {"a": "b"}, {"a": 1}, {"a": None},
          {"a": []}, [{"match": {"eventType": "a.*"}, "destination": "x"}], [{"match": {"a": "b"}}],
          "nonsense", 10**30, "1s1h", " 30s", "30s "]


def test_what_the_program_accepts_the_schema_accepts(validator, tmp_path):
    """Each setting with every value that is lying about: drawn, since all would take too long."""
    draw = random.Random(20_26)
    base = {"store": {"url": "sqlite:a"}, "brokers": {"main": {"url": "null:"}}}
    file = tmp_path / "relay.yaml"
    settings = list(leaves(validator.schema))
    accepted = 0
    for number in range(400):
        path, _ = settings[number % len(settings)]
        value = draw.choice(VALUES)
        content = json.loads(json.dumps(base))
        place = content
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = value
        file.write_text(to_yaml(content) + "\n")
        done = run_command("validate", "--config", str(file))
        if done.returncode == 0:
            accepted += 1
            assert errors(validator, read(file.read_text())) == [], file.read_text()
        elif STRUCTURAL.search(done.stderr) and "$" not in str(value) and value != "7":
            # Of a number in quotes a schema can't tell how large it is.
            assert errors(validator, read(file.read_text())) != [], done.stderr
    assert accepted > 50


def test_unknown_keys_and_broker_names_are_refused_by_both(validator, tmp_path):
    for text in ["relais: {}\n", "relay: {batch: 1}\n", "brokers: {main: {urls: x}}\n",
                 "brokers: {'a b': {url: 'null:'}}\n", "brokers: {main: }\n", "relay: [1]\n",
                 "routes: [{match: {eventType: a}, brokers: x}]\n",
                 "store: {url: 'sqlite:a', states: {done: 2}}\nbrokers: {main: {url: 'null:'}}\n",
                 "store: {url: 'sqlite:a', columns: {iD: a}}\nbrokers: {main: {url: 'null:'}}\n",
                 "store: {url: 'sqlite:a'}\nbrokers: {main: {url: 'null:'}}\n"
                 "brokers.main.url: 'http://two'\n"]:
        file = tmp_path / "relay.yaml"
        file.write_text(text)
        assert run_command("validate", "--config", str(file)).returncode == 78, text
        assert errors(validator, read(text)) != [], text


def test_an_empty_section_is_accepted_by_both(validator, tmp_path):
    text = "store: {url: 'sqlite:a'}\nbrokers: {main: {url: 'null:'}}\nrelay:\nbreaker: {}\n"
    file = tmp_path / "relay.yaml"
    file.write_text(text)
    assert run_command("validate", "--config", str(file)).returncode == 0
    assert errors(validator, read(text)) == []
