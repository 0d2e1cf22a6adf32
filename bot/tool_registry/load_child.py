"""The process that loads files of TOOLS_DIR before the gateway does: one that never ends ends here.

Started as a script by file_trials.py. Standard input has JSON: `path` of the interpreter, `seconds` for each
file, `files` as pairs of path and content. Answers a dot for each file that was loaded, or that raised: the
gateway loads it again and reports why. One that takes too long ends the process, with a traceback.
"""

import contextlib
import faulthandler
import json
import os
import sys
from types import ModuleType


def main() -> None:
    """Load the files one after the other."""
    request = json.loads(sys.stdin.buffer.read())
    sys.path[:] = request["path"]
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    for number, (path, text) in enumerate(request["files"]):
        faulthandler.dump_traceback_later(request["seconds"], exit=True, file=answers)
        module = ModuleType(f"tools_dir_trial_{number}")
        module.__file__ = path
        sys.modules[module.__name__] = module
        with contextlib.suppress(BaseException):
            exec(compile(text.encode("latin-1"), path, "exec"), vars(module))  # noqa: S102
        faulthandler.cancel_dump_traceback_later()
        answers.write(b".")
    os._exit(0)  # threads that a file has started would keep the process


if __name__ == "__main__":
    main()
