"""Tables of bench/devices.py's results: those that the C++ programs print, read back."""


def _cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read_tables(text):
    """What stands above the tables, and each of them as rows of cells with its heading first."""
    above, tables = [], []
    in_table = False
    for line in text.splitlines():
        if not line.startswith("|"):
            in_table = False
            if line.strip() and not tables:
                above.append(line.strip())
        elif not in_table:
            tables.append([_cells(line)])
            in_table = True
        elif set(line) - set("|-"):
            tables[-1].append(_cells(line))
    return {"about": " ".join(above), "tables": tables}


def document(results):
    """All tables below each other, those after the first with their headings as rows."""
    first, *others = results["tables"]
    return results["about"], [*first, *(row for table in others for row in table)]
