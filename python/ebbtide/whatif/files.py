"""Files: which memory of this process is that of a mapped file, as `ebb run` would manage it (docs/files.md).

The weights of a checkpoint are real tensors although all that is computed from them is fake. Stateless; reads
/proc/self/maps.
"""

_BYTES_MIN = 4 << 20  # two blocks


def in_mapped_file(address):
    """Whether `ebb run` would serve a mapping of a file that this address lies in."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                if "/" not in line:
                    continue
                addresses, allowed, _, _, inode = line.split(None, 5)[:5]
                begin, end = (int(each, 16) for each in addresses.split("-"))
                if not begin <= address < end:
                    continue
                kernels = "x" in allowed or ("w" in allowed and "s" in allowed)
                return inode != "0" and not kernels and end - begin >= _BYTES_MIN
    except OSError:
        pass
    return False
