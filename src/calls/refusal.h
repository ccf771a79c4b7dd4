// What a program may not do to managed memory: said once for each kind, with what to do instead.
#pragma once

namespace ebb::calls {

enum class Refusal { kUnmap, kRemap, kMapOver, kLock, kProtect, kAdvice };

// Sets errno and writes the message, at most once in this process. Returns -1.
int refuse(Refusal refusal, int error);

}  // namespace ebb::calls
