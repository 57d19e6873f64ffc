"""Compares what was written with what was received. Every finding is a line of text."""

import collections
from urllib.parse import unquote

from .outbox import headers_of

# What may differ between two attempts of one row; the host, since relays may use other addresses.
ATTEMPT_HEADERS = {"outbox-attempt", "outbox-redelivered", "webhook-timestamp",
                   "webhook-signature", "host"}


def lost(truth, accepted):
    """Rows that were committed and never accepted."""
    got = {request["id"] for request in accepted}
    return [f"lost: {row['id']}" for row in truth if row["id"] not in got]


def phantoms(truth, requests):
    """Requests with an id that nobody wrote."""
    known = {row["id"] for row in truth}
    return [f"phantom: {request['id']}" for request in requests if request["id"] not in known]


def repeats(accepted):
    """Ids that were accepted more than once."""
    counts = collections.Counter(request["id"] for request in accepted)
    return [f"{count} times: {event_id}" for event_id, count in counts.items() if count > 1]


def differences(truth, requests, source="/outbox-relay/outbox_messages"):
    """Requests that are not, byte for byte, the row that was written."""
    rows = {row["id"]: row for row in truth}
    found = []
    for request in requests:
        row = rows.get(request["id"])
        if row is not None:
            found += [f"{row['id']}: {text}" for text in difference(row, request, source)]
    return found


def difference(row, request, source):
    headers = headers_of(request)
    if request["sha"] != row["sha"] or request["size"] != row["size"]:
        yield f"payload differs ({request['size']} bytes instead of {row['size']})"
    expected = {
        "ce-specversion": "1.0", "ce-id": row["id"], "ce-type": row["type"], "ce-source": source,
        "content-type": "application/json", "idempotency-key": row["id"],
        "content-length": str(row["size"]),
    }
    if row.get("key") is not None:
        expected["ce-subject"] = row["key"]
    if row.get("traceparent") is not None:
        expected["traceparent"] = row["traceparent"]
    for name, value in expected.items():
        if unquote(headers.get(name, "(missing)")) != value:
            yield f"{name} is {headers.get(name)!r} instead of {value!r}"
    for name, value in row.get("headers", {}).items():
        got = headers.get(name.lower())
        if got is None or as_text(got) != value:
            yield f"header {name} is {got!r} instead of {value!r}"


def as_text(field):
    """A header field as the receiver logged it (Latin-1), read as UTF-8."""
    return field.encode("latin-1").decode("utf-8", errors="replace")


def disorder(truth, accepted):
    """First deliveries that came before the one that precedes them in their key."""
    position = {}
    next_of = collections.Counter()
    for row in truth:
        position[row["id"]] = (row["key"], next_of[row["key"]])
        next_of[row["key"]] += 1
    last = collections.defaultdict(lambda: -1)
    seen = set()
    found = []
    for request in accepted:
        if request["id"] in seen or request["id"] not in position:
            continue
        seen.add(request["id"])
        key, place = position[request["id"]]
        if place < last[key]:
            found.append(f"{request['id']} of {key}: place {place} after {last[key]}")
        last[key] = max(last[key], place)
    return found


def identity_drift(requests):
    """Attempts of one row that differ in more than the attempt headers."""
    first = {}
    found = []
    for request in requests:
        shape = (request["sha"], request["path"],
                 tuple(sorted((name, value) for name, value in request["headers"]
                              if name not in ATTEMPT_HEADERS)))
        if first.setdefault(request["id"], shape) != shape:
            found.append(f"{request['id']}: attempt {request['n']} differs from the first")
    return found


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def report(findings, most=10):
    """An assertion message: how many there are, and the first of them."""
    return f"{len(findings)} findings:\n" + "\n".join(findings[:most])
