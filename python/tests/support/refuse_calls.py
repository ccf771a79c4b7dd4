#!/usr/bin/env python3
"""Runs a command to which the kernel refuses system calls, as the seccomp profile of a container does.

    refuse_calls.py userfaultfd:EPERM io_uring_setup:ENOSYS -- COMMAND

The filter holds from before the command starts, for it and all that it starts. `userfaultfd` stands for the device
/dev/userfaultfd, too, which has another way to the same.
"""

import ctypes
import errno
import os
import struct
import sys

NUMBERS = {"x86_64": {"userfaultfd": 323, "io_uring_setup": 425, "memfd_create": 319, "ioctl": 16},
           "aarch64": {"userfaultfd": 282, "io_uring_setup": 425, "memfd_create": 279, "ioctl": 29}}
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NEW_USERFAULTFD = 0xAA00  # an ioctl of the device

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # of classic BPF: a word of seccomp_data, a jump, the end
AT_NUMBER, AT_ARCH, AT_SECOND = 0, 4, 24  # in seccomp_data: the low word of the second argument
ALLOW, REFUSE = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def _instruction(code, value, when_true=0, when_false=0):
    return struct.pack("HBBI", code, when_true, when_false, value)


def filter_of(refused, machine):
    """The program that refuses these calls {name: errno} and allows all others."""
    numbers = NUMBERS[machine]
    lines = [_instruction(LOAD, AT_ARCH), _instruction(EQUAL, AUDIT_ARCH[machine], 1, 0), _instruction(RETURN, ALLOW),
             _instruction(LOAD, AT_NUMBER)]
    for name, number in refused.items():
        lines += [_instruction(EQUAL, numbers[name], 0, 1), _instruction(RETURN, REFUSE | number)]
    if "userfaultfd" in refused:
        lines += [_instruction(EQUAL, numbers["ioctl"], 0, 3), _instruction(LOAD, AT_SECOND),
                  _instruction(EQUAL, NEW_USERFAULTFD, 0, 1), _instruction(RETURN, REFUSE | refused["userfaultfd"])]
    return b"".join([*lines, _instruction(RETURN, ALLOW)])


def install(refused):
    """From now on, for this process and all that it starts."""
    program = filter_of(refused, os.uname().machine)
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    filter_ = _Program(len(program) // 8, program)
    if libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), ctypes.byref(filter_), zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "no seccomp filter can be installed")


def main():
    middle = sys.argv.index("--")
    calls = [word.split(":") for word in sys.argv[1:middle]]
    install({name: getattr(errno, number) for name, number in calls})
    command = sys.argv[middle + 1:]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
