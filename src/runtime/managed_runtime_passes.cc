// ManagedRuntime: what an earlier run of the program is remembered to have made of the files that it maps, and what the
// next one is told.
#include <utility>

#include "runtime/managed_runtime.h"

namespace ebb {
namespace {

// By then iterations are like each other: the first has a setup in it, the second is what page faults left of it.
constexpr std::uint64_t kIterationsTelling = 4;

}  // namespace

// A file has been mapped. Lock held.
void ManagedRuntime::recall(std::int32_t file) {
  if (!passes_.enabled() || core_.launches().iterations() > 0) return;
  const std::string identity = files_->identity(file);
  const auto [known, added] = file_identities_.emplace(identity, file);
  if (!added && known->second == file) return;  // mapped once more
  known->second = file;
  if (!recalled_) recalled_ = passes_.load(identity);
  if (!recalled_ || recalled_->block_bytes != core_.block_bytes()) return;
  FilePass pass = recalled_->pass;
  for (FilePass::Use& use : pass.uses) {
    const auto found = file_identities_.find(recalled_->files[static_cast<std::size_t>(use.file)]);
    // Another file may have the number of one that has been closed meanwhile.
    if (found == file_identities_.end() || files_->identity(found->second) != found->first) return;
    use.file = found->second;
  }
  core_.launches().earlier_run().expect(std::move(pass));
}

// Once, when iterations have become like each other: writes down the latest. Lock held but while it writes.
void ManagedRuntime::remember(Lock& lock) {
  if (!passes_.enabled() || remembered_ || core_.launches().iterations() < kIterationsTelling) return;
  remembered_ = true;
  const Recording* const latest = core_.policy().latest();
  if (latest == nullptr || file_identities_.empty()) return;
  StoredPass stored{core_.block_bytes(), {}, core_.launches().earlier_run().describe(*latest)};
  std::map<std::int32_t, std::int32_t> numbers;  // of its files, by those that they have here
  for (FilePass::Use& use : stored.pass.uses) {
    const auto [number, added] = numbers.emplace(use.file, static_cast<std::int32_t>(numbers.size()));
    if (added) stored.files.push_back(files_->identity(use.file));
    use.file = number->second;
  }
  const bool known = recalled_ && recalled_->files == stored.files && recalled_->pass.same_as(stored.pass);
  if (known || stored.pass.launches.empty()) return;
  lock.unlock();
  passes_.save(stored);
  lock.lock();
}

}  // namespace ebb
