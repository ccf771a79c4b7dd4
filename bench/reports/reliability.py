"""Tables of bench/simulated/reliability.py: what became of each kind of fault, and which mutations were found; and of
bench/reliability/real.py: each fault on the real kernel and disk, how often there was one, and what came of it; of
bench/reliability/soak.py and inputs.py; and of tools/coverage: which error branches no test reaches.
"""

MIB = 2**20

# Of a fault: what happens, and what comes of it.
KINDS = {
    "read_error": ("a read fails, and later does not", "read again"),
    "read_error_forever": ("an extent can never be read again", "lost, loudly"),
    "write_error": ("a write fails", "written elsewhere, or kept in memory"),
    "write_error_forever": ("an extent can never be written again", "retired"),
    "no_space": ("a write into reserved space is refused", "kept in memory"),
    "corrupt_read": ("a bit flips on the way", "checksum; read again"),
    "stale_read": ("the extent's earlier content comes", "checksum; read again"),
    "corrupt_at_rest": ("a bit is written wrong", "checksum; lost, loudly"),
    "bit_rot": ("bits flip where they lie", "checksum; lost, loudly"),
    "lost_write": ("acknowledged, not written", "checksum; lost, loudly"),
    "misdirected_write": ("acknowledged, written to another extent", "checksum; both lost, loudly"),
    "torn_write": ("acknowledged, half of it written", "checksum; lost, loudly"),
    "short_transfer": ("half comes long before the rest", "waits"),
    "slow": ("up to 100 times the latency; others overtake", "waits"),
    "stall": ("the device stands still, up to 5 s", "waits"),
    "busy": ("a block cannot leave just now", "another one leaves"),
    "create_error": ("no memory for a frame just now", "goes on with less"),
    "flash_full": ("the disk has no more room", "kept in memory; refused or starved, loudly"),
    "frames_short": ("the system has no more memory", "goes on with less"),
}


def _failed(results, word):
    """Failures whose check has this word in it; what they are is in the results."""
    return sum(word in failure["what"] for failure in results["fuzz"]["failures"])


def table(results):
    rows = [["fault", "what happens", "injected", "outcome", "blocks lost by it"]]
    for name, counts in results["fuzz"]["faults"].items():
        happens, outcome = KINDS[name]
        rows.append([name, happens, f"{counts['injected']:,}", outcome, f"{counts['lost']:,}"])
    return rows


def document(results):
    fuzz = results["fuzz"]
    wrong = _failed(results, "model_.matches") + _failed(results, "content ==")
    causeless = _failed(results, "cause.has_value")
    hangs = _failed(results, "hangs") + _failed(results, "kTurnsMax") + _failed(results, "kWaitMaxNs")
    other = len(fuzz["failures"]) - wrong - causeless - hangs
    heading = (f"{fuzz['operations']:,} operations of {fuzz['seeds']:,} programs, each run twice, "
               f"{fuzz['operations_per_second']:,.0f} operations a second; wrong bytes seen: {wrong}; blocks lost "
               f"without a fault that takes them: {causeless}; hangs: {hangs}; other failed checks: {other}")
    return heading, table(results)


def document_mutations(results):
    mutations = results["mutations"]
    tried = [each for each in mutations["mutations"] if "problem" not in each]
    rows = [["mutation", "file", "unit tests", "fuzzer"]]
    for each in tried:
        fuzzer = f"{each['fuzz_seconds']:.1f} s" if each["fuzz"] else "-"
        rows.append([each["name"], each["file"].removeprefix("src/"), "found" if each["unit"] else "-", fuzzer])
    found = sum(each["found"] for each in tried)
    heading = (f"{found} of {len(tried)} mutations found, {sum(bool(each['unit']) for each in tried)} by unit tests, "
               f"{sum(bool(each['fuzz']) for each in tried)} by the fuzzer within {mutations['minutes']:g} minutes")
    return heading, rows


# How a run on the real kernel and disk may end.
ENDS = {"equal": "losses equal", "refused": "refused before the first step", "stopped": "stopped with a message",
        "killed": "killed"}


def _ends(row):
    if "not_here" in row:
        return f"not here: {row['not_here']}"
    found = [f"{text} {row[end]}" if row[end] < row["runs"] else text for end, text in ENDS.items() if row[end]]
    return "; ".join(found + [f"WRONG {len(row['wrong'])}"] * bool(row["wrong"]))


def table_of_faults(results):
    return [["fault", "what happens", "runs", "outcome"],
            *([row["name"], row["happens"], str(row["runs"]), _ends(row)] for row in results["faults"])]


def document_faults(results):
    runs = sum(row["runs"] for row in results["faults"])
    wrong = sum(len(row["wrong"]) for row in results["faults"])
    heading = (f"{runs} runs of a training in a third of its memory, as root and as an ordinary user; other losses "
               f"than stock's, ends without a message, hangs, anything left behind: {wrong}")
    return heading, table_of_faults(results)


def table_of_soak(results):
    stock, managed = results["stock"], results["managed"]
    rows = [["", "stock", "ebb run"], ["time", *(f"{each['seconds']:.0f} s" for each in (stock, managed))]]
    for kind in managed["rounds"]:
        rows.append([f"rounds of training and then: {kind.replace('_', ' ')}",
                     *(str(each["rounds"].get(kind, 0)) for each in (stock, managed))])
    for kind in managed["early_late"]:
        scale, unit = (MIB, " MiB") if kind == "memory" else (1, "")
        texts = [" to ".join(f"{value / scale:.0f}" for value in each["early_late"][kind]) + unit
                 for each in (stock, managed)]
        rows.append([("memory outside the budget" if kind == "memory" else kind) + ", early to late", *texts])
    if stats := managed["stats"]:
        rows.append(["most tensors alive at once", "", f"{stats['peak_live_bytes'] / MIB:.0f} MiB"])
        rows.append(["budget", "", f"half of {results['budget']} to all of it"])
        rows.append(["changes of the budget", "", f"{managed['changes']:,}, {managed['refused']:,} of them refused"])
        rows.append(["fetched from flash", "", f"{stats['fetched_bytes'] / MIB:,.0f} MiB"])
    return [*rows, ["rounds with other bits than stock's", "", str(results["different"])]]


def document_soak(results):
    rounds = sum(results["managed"]["rounds"].values())
    heading = (f"{rounds} rounds in {results['managed']['seconds'] / 60:.0f} minutes under `ebb run`; "
               + ("; ".join(results["problems"]) or "every bit is stock's, and nothing grew"))
    return heading, table_of_soak(results)


def table_of_inputs(results):
    rows = [["input", "executions", "inputs that reached something new", "found"]]
    return rows + [[each["name"], f"{each['executions']:,}", f"{each['kept']:,}", each["found"] or "-"]
                   for each in results["inputs"]]


def document_inputs(results):
    executions = sum(each["executions"] for each in results["inputs"])
    found = sum(each["found"] is not None for each in results["inputs"])
    heading = (f"{executions:,} executions, {results['minutes']:g} minutes of each input, with address and "
               f"undefined-behaviour sanitizers; inputs that ended a reader: {found}")
    return heading, table_of_inputs(results)


def table_of_coverage(results):
    rows = [["file", "function", "error branches", "not reached", "why"]]
    for each in results["functions"]:
        rows.append([each["file"].removeprefix("src/"), f"`{each['function']}`" if each["function"] else "-",
                     str(each["branches"]), str(each["not_reached"]), each["why"]])
    return rows


def document_coverage(results):
    """A line for each file; the results have each branch by its line."""
    files = {}
    for each in results["functions"]:
        files.setdefault(each["file"].removeprefix("src/"), []).append(each)
    rows = [["file", "not reached", "in"]]
    rows += [[file, str(sum(each["not_reached"] for each in functions)),
              ", ".join(f"`{each['function'].split('::')[-1]}`" for each in functions if each["function"])]
             for file, functions in files.items()]
    missing = sum(each["not_reached"] for each in results["functions"])
    heading = (f"{results['branches'] - missing:,} of {results['branches']:,} error branches are reached by a C++ "
               f"test ({', '.join(results['tests'])})")
    return heading, rows
