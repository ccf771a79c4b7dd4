"""Table of tools/matrix: with which Pythons and PyTorchs Ebbtide has been installed and tested."""


def outcome(result):
    if "problem" in result:
        return "failed: " + result["problem"].splitlines()[-1]
    tests = result.get("tests")
    if tests is None:
        return "not run"
    failed = tests.get("failed", 0) + tests.get("error", 0) + tests.get("errors", 0)
    return f"{tests.get('passed', 0)} passed, {failed} failed, {tests.get('skipped', 0)} skipped"


def table(results):
    rows = [["Python", "PyTorch", "a program in a third of its memory", "tests"]]
    for result in results["pairs"]:
        equal = {True: "bits of stock", False: "differs", None: "-"}[result.get("equal")]
        rows.append([result["python"], result["torch"], equal, outcome(result)])
    return rows


def document(results):
    heading = "Installed from a checkout by pip into an environment with each; tests are the package's"
    return heading, table(results)
