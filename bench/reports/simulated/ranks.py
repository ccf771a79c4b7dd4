"""Tables of bench/simulated/ranks.py: what a step takes with so many ranks, and what binds it."""


def cell(row):
    return f"{row['step_ns'] / 1e9:.3g} s, {row['of_alone']:.0%}, {row['bound_by']}"


def title(job):
    return f"{job['name']}, {job['ranks_per_drive']} a drive, {job['network_bps'] / 1e9:g} GB/s"


def table(jobs):
    """A line for each number of ranks; a cell for each model, network and number of ranks on a drive."""
    rows = [["ranks", *map(title, jobs)]]
    for at_once in zip(*(job["rows"] for job in jobs)):
        rows.append([str(at_once[0]["ranks"]), *map(cell, at_once)])
    return rows


def binds(job):
    parts = [f"{what} from {job[f'{what}_binds_from']}" for what in ("drive", "network")
             if job[f"{what}_binds_from"] is not None]
    return f"{title(job)}: {' and '.join(parts) or 'neither'}"


def document(results):
    jobs = results["jobs"]
    sizes = {job["name"]: job["gradient_bytes"] for job in jobs}
    heading = ("Step, part of the speed of a rank alone, and what is busy longest; it binds from so many ranks on: "
               + "; ".join(map(binds, jobs)) + ". Gradients: "
               + ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in sizes.items()))
    return heading, table(jobs)
