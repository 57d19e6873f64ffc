"""Where test servers keep their data."""

import os
import shutil
import tempfile

MEMORY = "/dev/shm"
ROOM = 2 << 30


def server_folder(name):
    """A new folder, in memory where there is room: a shared disk would decide how long tests take."""
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    return tempfile.mkdtemp(prefix=f"outbox-{name}-", dir=MEMORY if roomy else None)
