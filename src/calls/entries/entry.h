// What marks a function of this library as one that stands in front of the C library's.
#pragma once

#include "calls/entries/next.h"

#define EBB_ENTRY [[gnu::visibility("default")]]
// A second name of an entry of this file, in C. Where headers declare it, they declare it as a function of other types.
#define EBB_ALIAS(name, entry) __asm__(".globl " #name "\n.type " #name ", @function\n.set " #name ", " #entry "\n")
