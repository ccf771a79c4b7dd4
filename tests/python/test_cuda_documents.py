"""docs/cuda-driver.md lists what is used of NVIDIA's libraries, and quotes what their headers say."""

import pathlib
import re
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/cuda-driver.md"
SOURCES = ROOT / "src/drivers/cuda"
# The section, the file with the one list of entry points, the header that is quoted.
PARTS = [("The driver", "cuda_api.cc", "cuda.h"), ("NVRTC", "kernels/nvrtc_api.cc", "nvrtc.h"),
         ("cuBLAS", "kernels/cublas_api.cc", "cublas_api.h")]


def section(title):
    [text] = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(encoding="utf-8"),
                        re.MULTILINE | re.DOTALL)
    return text


def listed(text):
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def used(source):
    return re.findall(r'\.find\([\w.]+, "(\w+)"\)', source)


def quoted(text):
    return re.findall(r"“([^”]+)”", text)


def plain(text):
    """Without stars of comments, marks of Doxygen's and lines."""
    text = re.sub(r"^[ \t]*(/\*\*|\*/|\*(?!\w))", " ", text, flags=re.MULTILINE)
    text = re.sub(r"\\[pbec] |::(?=\w)|</?[bi]>", "", text)
    return " ".join(text.split())


def header(name):
    folder = pathlib.Path(sysconfig.get_paths()["purelib"])
    found = sorted(folder.glob(f"nvidia/*/include/{name}"))
    if not found:
        pytest.skip(f"no {name}: the packages of NVIDIA's that PyTorch for CUDA needs are not installed")
    return found[-1].read_text(encoding="utf-8", errors="replace")


def header_of_the_quotations(name):
    [version] = re.findall(r"`CUDA_VERSION` (\d+)", DOCUMENT.read_text(encoding="utf-8"))
    [found] = re.findall(r"^#define CUDA_VERSION (\d+)", header("cuda.h"), re.MULTILINE)
    if found != version:
        pytest.skip(f"the headers here are of CUDA_VERSION {found}, those that are quoted of {version}")
    return plain(header(name))


@pytest.mark.parametrize(("title", "source", "_"), PARTS)
def test_lists_what_is_used_and_nothing_else(title, source, _):
    entry_points = used((SOURCES / source).read_text(encoding="utf-8"))
    rows = listed(section(title))
    assert len(entry_points) > 3 and len(rows) == len(set(rows))
    assert set(rows) == set(entry_points)


@pytest.mark.parametrize(("title", "_", "name"), [*PARTS, ("Assumptions that no sentence covers", "", "cuda.h")])
def test_quotations_stand_in_the_headers(title, _, name):
    text = header_of_the_quotations(name)
    sentences = quoted(section(title))
    assert sentences
    assert [sentence for sentence in sentences if sentence not in text] == []


@pytest.mark.parametrize(("title", "_", "__"), PARTS)
def test_each_row_has_a_sentence_or_says_that_there_is_none(title, _, __):
    rows = [line for line in section(title).splitlines() if line.startswith("| `")]
    assert [row for row in rows if not quoted(row) and "Not said: " not in row] == []


def test_what_is_fatal_is_listed():
    names = dict(re.findall(r"\b(k\w+) = (\d+)", (SOURCES / "cuda_api.h").read_text(encoding="utf-8")))
    [fatal] = re.findall(r"kFatal\{([^}]*)\}", (SOURCES / "cuda_api.cc").read_text(encoding="utf-8"))
    codes = [int(names.get(code.strip(), code)) for code in fatal.split(",")]
    text = section("Assumptions that no sentence covers")
    [table] = re.findall(r"^### What `is_fatal.*?^\|---\|---\|\n(.*?)^$", text, re.MULTILINE | re.DOTALL)
    rows = [line.split("|")[1] for line in table.splitlines()]
    assert sorted(int(code) for row in rows for code in re.findall(r"\d+", row)) == sorted(codes)


def test_a_wrong_quotation_is_found():
    text = plain("/**\n * Sets \\p *pp for\n * ::cuMemMap(), <b>[0,\n * ::cuCount()-1]</b>.\n */\n")
    assert text == "Sets *pp for cuMemMap(), [0, cuCount()-1]."
    assert "Sets *pp for cuMemUnmap()" not in text


def test_a_mark_of_a_comment_is_not_a_pointer():
    assert plain(" * one\n * two *three\n* four\n */") == "one two *three four"
