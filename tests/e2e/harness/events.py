"""The real events that all these tests send."""

import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
SUBSET = os.path.join(HERE, "..", "..", "data", "github-webhooks.jsonl")


def events_path():
    """The file named by OUTBOX_EVENTS, else the subset that comes with the tests."""
    return os.environ.get("OUTBOX_EVENTS") or os.path.normpath(SUBSET)


def load_events(path=None):
    with open(path or events_path(), encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]
