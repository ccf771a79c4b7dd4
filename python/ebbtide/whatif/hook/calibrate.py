"""What `ebb calibrate` runs: measures this machine's kernels anew, keeps the result, and writes it to the file named.

One process, on its main thread, with the number of threads that torch chooses. Nothing is written if it fails.
"""

import json
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location


def main(target):
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # Not as a part of `ebbtide`, which needs the compiled extension; this needs none.
    spec = spec_from_file_location("ebbtide_whatif", os.path.join(folder, "__init__.py"),
                                   submodule_search_locations=[folder])
    package = module_from_spec(spec)
    sys.modules["ebbtide_whatif"] = package
    spec.loader.exec_module(package)
    summary = package.calibrate()
    with open(target, "w", encoding="utf-8") as file:
        json.dump(summary, file)


if __name__ == "__main__":
    main(sys.argv[1])
