"""Real processes around the relay: an outbox, a writer, a receiver, a proxy, the relay."""
