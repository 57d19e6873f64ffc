"""Real processes around the relay: an outbox, a writer, a receiver, a proxy, and the relay itself."""
