"""Waiting for a condition instead of sleeping."""

import time


class TooLate(AssertionError):
    """A condition did not come true within its deadline."""


def until(condition, seconds, what, poll=0.02):
    """Returns the first true value of condition(); fails after `seconds`.

    `what` names what is waited for: text, or a function that also tells how far things have come.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            text = what() if callable(what) else what
            raise TooLate(f"not within {seconds:g} s: {text} (last seen: {value!r})")
        time.sleep(poll)


def holds(condition, seconds, what, poll=0.05):
    """Fails as soon as condition() is false; returns when it was true for `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        assert value, f"should have held for {seconds:g} s: {what() if callable(what) else what}"
        time.sleep(poll)
