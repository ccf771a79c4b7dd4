#!/usr/bin/env python3
"""Writes the table of docs/mirror.md from a run of the mirror's tests.

    tools/site/mirror_table.py --build build/release            runs mirror_test and rewrites the table
    tools/site/mirror_table.py --build build/release --check    only says whether a row of the table fails now

One line for each row of the HMM self-tests of Linux, one column for each kind of device and rung of userfaultfd.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ("PrivateFull", "PrivateUserMode", "CoherentFull", "CoherentUserMode")
BEGIN, END = "<!-- table: tools/site/mirror_table.py -->", "<!-- end of table -->"
TEST_LIMIT_S = 600


def run_tests(build):
    """(row name, column) to "passed", "failed", or the reason of a skip."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.json"
        command = [build / "tests" / "mirror_test", "--gtest_filter=*.Row*", f"--gtest_output=json:{report}"]
        ran = subprocess.run(command, cwd=ROOT, check=False, timeout=TEST_LIMIT_S, stdout=subprocess.PIPE, text=True)
        suites = json.loads(report.read_text(encoding="utf-8"))["testsuites"]
    # The report does not have the reasons of skips; the line after "Skipped" does.
    reasons = dict(re.findall(r"RUN +\] (\S+)\n[^\n]*: Skipped\n([^\n]+)", ran.stdout))
    results = collections.defaultdict(dict)
    for suite in suites:
        for test in suite["testsuite"]:
            row, _, column = test["name"].partition("/")
            outcome = "failed" if test.get("failures") else "passed"
            if test["result"] == "SKIPPED":
                outcome = reasons.get(f"{suite['name']}.{test['name']}", "skipped")
            results[row][column] = outcome
    return dict(sorted(results.items()))


def render(results):
    notes = []

    def cell(outcome):
        if outcome in ("passed", "failed"):
            return outcome
        if outcome not in notes:
            notes.append(outcome)
        return f"skipped ({notes.index(outcome) + 1})"

    lines = ["| row | private, full | private, user mode | coherent, full | coherent, user mode |",
             "|---|---|---|---|---|"]
    for row, outcomes in results.items():
        number, _, title = row.removeprefix("Row").partition("_")
        cells = " | ".join(cell(outcomes.get(column, "not run")) for column in COLUMNS)
        lines.append(f"| {int(number)} {title} | {cells} |")
    lines += ["", *(f"({number}) {note}" for number, note in enumerate(notes, 1))]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where tests/ is")
    parser.add_argument("--check", action="store_true", help="do not write")
    arguments = parser.parse_args()
    results = run_tests(arguments.build.resolve())
    failed = [row for row, outcomes in results.items() if "failed" in outcomes.values()]
    for row in failed:
        print(f"failed: {row}")
    if not arguments.check:
        page = ROOT / "docs/mirror.md"
        text = page.read_text(encoding="utf-8")
        head, rest = text.split(BEGIN)
        _, tail = rest.split(END)
        page.write_text(f"{head}{BEGIN}\n{render(results)}\n{END}{tail}", encoding="utf-8")
    print(f"{len(results)} rows, {len(failed)} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
