"""What a program would do to memory, found out without memory: `ebb plan -- python train.py`.

The program runs with fake tensors (shapes without content) until the end of its second step; what the second step does
becomes a trace (docs/trace.md) with durations estimated for this machine. `start()` is called by the hook as soon as
torch has been imported; from then on the program makes no real tensors on its main thread.

    answers    plausible values where the program reads content
    patches    checkpoints, loaders and compilers made harmless
    ranks      one of many ranks, alone
    recorder   operators and storages as events
    accumulate sums of gradients as they are with real tensors
    session    where steps begin and end; how the program is left
    kinds      weight, gradient, optimizer state, input, activation
    trace      events as an ebb-trace
    roofline   durations from a calibration of this machine
    calibration, measure   that calibration

Needs nothing of Ebbtide but these files and ebbtide._lists: not the compiled extension.
"""


def start():
    """Makes the tensors of this process fake, and ends it with a trace; settings come from the environment."""
    from . import session

    session.start()


def calibrate():
    """Measures this machine with torch's present number of threads, keeps the result, and returns a summary."""
    from . import calibration, measure

    measured = measure.measure(calibration.show_progress)
    calibration.store(measured)
    return {"key": calibration.key(), **measured}
