"""Reads Swift sources for the checks: which files there are, and their text without comments."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A string (raw or not, of one line or several) or a comment: whichever begins first. Block comments are nested in Swift; ours are not.
_TOKEN = re.compile(
    r'(?P<string>#+"""[\s\S]*?"""#+|"""[\s\S]*?"""|#+"[^\n]*?"#+|"(?:\\.|[^"\\\n])*")|(?P<comment>//[^\n]*|/\*[\s\S]*?\*/)'
)


def swift_files():
    """Every Swift file that is in the repository or about to be, as a path relative to its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.swift"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    files = [name for name in listed if name and (ROOT / name).exists()]
    if not files:
        sys.exit("error: no Swift file found")
    return files


def code(name):
    """The text of a file with every comment made a space; line numbers are kept, and so are strings: their interpolations are code."""
    text = (ROOT / name).read_text()

    def blank(match):
        if match.group("string") is not None:
            return match.group(0)
        return re.sub(r"[^\n]", " ", match.group(0))

    return _TOKEN.sub(blank, text)


def finish(faults, summary):
    """Prints what was found, and ends with the status that says it."""
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    if faults:
        sys.exit(1)
    print(f"==> {summary}")
