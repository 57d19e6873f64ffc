"""Reads the Prometheus text format."""

import re
import urllib.request

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: \d+)?$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
PREFIX = "outbox_relay_"


class Metrics:
    """One scrape. Names may be given without the prefix."""

    def __init__(self, text):
        self.text = text
        self.samples = {}
        for line in text.splitlines():
            if not line or line.startswith("#"):
                continue
            match = SAMPLE.match(line)
            assert match, f"not a sample: {line!r}"
            labels = frozenset(LABEL.findall(match.group(2) or ""))
            assert (match.group(1), labels) not in self.samples, f"twice: {line!r}"
            self.samples[match.group(1), labels] = float(match.group(3))

    @classmethod
    def scrape(cls, port, timeout=5):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=timeout) as answer:
            return cls(answer.read().decode())

    def matching(self, name, **labels):
        if not name.startswith(("process_", PREFIX)):
            name = PREFIX + name
        wanted = set(labels.items())
        return {key: value for key, value in self.samples.items()
                if key[0] == name and wanted <= key[1]}

    def value(self, name, **labels):
        """The one series that has these labels."""
        found = self.matching(name, **labels)
        assert len(found) == 1, f"{name}{labels}: {len(found)} series"
        return next(iter(found.values()))

    def sum(self, name, **labels):
        """All series with these labels; at least one must exist."""
        found = self.matching(name, **labels)
        assert found, f"no series {name}{labels}"
        return sum(found.values())
