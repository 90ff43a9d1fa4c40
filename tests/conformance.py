"""Answer conformance vectors: `tests/conformance.py KIND < in.jsonl > out.jsonl`.

Each input line is one row of a vector file without its expected part; each output line is our answer in the shape
of that part. A kind whose input is a recording (`protocol`) is replayed as a whole; its output is our server side,
with what changes from run to run normalised. Run it with the project's interpreter, from anywhere.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from conformance_kinds import KINDS, STREAMS, answerer, replayer


def main(arguments: list[str]) -> int:
    """Answer every row on standard input."""
    if len(arguments) != 1 or arguments[0] not in (*KINDS, *STREAMS):
        known = ", ".join((*KINDS, *STREAMS))
        print(f"usage: conformance.py KIND < in.jsonl; KIND is one of {known}", file=sys.stderr)
        return 2
    if arguments[0] in STREAMS:
        recording = [json.loads(line) for line in sys.stdin.buffer if line.strip()]
        for answered in replayer(arguments[0])(recording):
            print(json.dumps(answered, ensure_ascii=True))
        return 0
    answer = answerer(arguments[0])
    for line in sys.stdin.buffer:
        if line.strip():
            # One row that we cannot read must not shift the answers of the rows behind it.
            try:
                answered = answer(json.loads(line))
            except Exception as error:
                answered = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answered, ensure_ascii=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
