// See pass_store.h.
#include "runtime/passes/pass_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace ebb {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr std::size_t kStoredFilesMax = 1024;

// What nobody but the user can have written, or nothing.
std::string read_own(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return {};
  struct stat status {};
  std::string text;
  const bool own = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
                   (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (own && static_cast<std::size_t>(status.st_size) <= PassStore::kBytesMax) {
    text.resize(static_cast<std::size_t>(status.st_size));
    const ssize_t got = ::read(fd, text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  ::close(fd);
  return text;
}

// Whole or not at all, whoever else writes it.
void write_own(const std::string& path, const std::string& text) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) ::unlink(temporary.c_str());
}

template <typename T>
T whole(const Json& json) {
  if (!json.is_number_unsigned()) throw std::out_of_range("number");
  const auto number = json.get<std::uint64_t>();
  if (number > std::numeric_limits<T>::max()) throw std::out_of_range("number");
  return static_cast<T>(number);
}

// Throws what nlohmann throws, or std::out_of_range.
StoredPass parse(const std::string& text) {
  const Json json = Json::parse(text);
  StoredPass stored;
  if (json.at("version") != kVersion) throw std::out_of_range("version");
  stored.block_bytes = whole<std::uint64_t>(json.at("block_bytes"));
  stored.files = json.at("files").get<std::vector<std::string>>();
  if (stored.files.size() > kStoredFilesMax) throw std::out_of_range("files");
  FilePass& pass = stored.pass;
  for (const Json& launch : json.at("launches")) {
    const auto first = static_cast<std::uint32_t>(pass.uses.size());
    for (const Json& use : launch.at("uses")) {
      const auto file = whole<std::uint32_t>(use.at(0));
      if (file >= stored.files.size()) throw std::out_of_range("file");
      const FilePart part{static_cast<std::int32_t>(file), whole<std::uint64_t>(use.at(1)),
                          whole<std::uint64_t>(use.at(2))};
      pass.uses.push_back({part, whole<std::uint32_t>(use.at(3)), whole<std::uint32_t>(use.at(4))});
    }
    const auto uses = static_cast<std::uint32_t>(pass.uses.size()) - first;
    if (uses == 0) throw std::out_of_range("uses");
    pass.launches.push_back(
        {whole<std::uint64_t>(launch.at("op")), whole<std::uint64_t>(launch.at("ns")), first, uses});
    if (pass.launches.size() > FilePass::kLaunchesMax || pass.uses.size() > FilePass::kUsesMax) {
      throw std::out_of_range("launches");
    }
  }
  if (pass.launches.empty()) throw std::out_of_range("launches");
  return stored;
}

Json to_json(const StoredPass& stored) {
  Json launches = Json::array();
  for (const FilePass::Launch& launch : stored.pass.launches) {
    Json uses = Json::array();
    for (std::uint32_t i = launch.first_use; i < launch.first_use + launch.uses; ++i) {
      const FilePass::Use& use = stored.pass.uses[i];
      uses.push_back({use.file, use.offset, use.bytes, use.first_block, use.blocks});
    }
    launches.push_back({{"op", launch.op}, {"ns", launch.ns}, {"uses", std::move(uses)}});
  }
  return {{"version", kVersion},
          {"block_bytes", stored.block_bytes},
          {"files", stored.files},
          {"launches", std::move(launches)}};
}

const std::string& most_used(const StoredPass& stored) {
  std::vector<std::uint64_t> bytes(stored.files.size());
  for (const FilePass::Use& use : stored.pass.uses) bytes[static_cast<std::size_t>(use.file)] += use.bytes;
  return stored.files[static_cast<std::size_t>(std::ranges::max_element(bytes) - bytes.begin())];
}

}  // namespace

std::optional<StoredPass> parse_pass(const std::string& text) {
  try {
    return parse(text);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// What cannot be read will be written anew.
std::optional<StoredPass> PassStore::load(const std::string& identity) const {
  try {
    return parse_pass(read_own(path_of(identity)));
  } catch (const std::exception&) {  // no memory for it
    return std::nullopt;
  }
}

void PassStore::save(const StoredPass& stored) const {
  const FilePass& pass = stored.pass;
  if (pass.launches.empty() || pass.launches.size() > FilePass::kLaunchesMax || pass.uses.size() > FilePass::kUsesMax) {
    return;
  }
  try {
    fs::create_directories(fs::path(directory_).parent_path());
    if (fs::create_directory(directory_)) fs::permissions(directory_, fs::perms::owner_all);
    make_room();
    const std::string text = to_json(stored).dump();
    if (text.size() <= kBytesMax) write_own(path_of(most_used(stored)), text);
  } catch (const std::exception&) {
    // No home, no room, or no permission: the next run begins as this one did.
  }
}

void PassStore::make_room() const {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_)) {
    files.emplace_back(entry.last_write_time(), entry.path());
  }
  if (files.size() < kFilesMax) return;
  std::ranges::sort(files);
  for (std::size_t i = 0; i <= files.size() - kFilesMax; ++i) fs::remove(files[i].second);
}

std::string default_pass_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/ebbtide/passes";
  }
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? std::string() : std::string(home) + "/.cache/ebbtide/passes";
}

}  // namespace ebb
