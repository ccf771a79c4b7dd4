"""Changes of sources that are data: in `file`, `old`, which stands there exactly once, becomes `new`."""


def applied(tree, edit):
    """The file and its text before and after; None for the latter if the edit does not apply."""
    path = tree / edit["file"]
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    fits = text.count(edit["old"]) == 1 and edit["old"] != edit["new"]
    return path, text, text.replace(edit["old"], edit["new"]) if fits else None
