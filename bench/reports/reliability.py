"""Tables of bench/simulated/reliability.py: what became of each kind of fault, and which mutations were found."""

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
