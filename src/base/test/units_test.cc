// parse_size and format_size: every spelling that is promised, and nonsense refused with the text quoted.
#include "ebb/units.h"

#include <gtest/gtest.h>

#include <string>

#include "ebb/status.h"

namespace ebb {
namespace {

TEST(ParseSize, AcceptsWhatPeopleWrite) {
  struct Case {
    const char* text;
    std::uint64_t bytes;
  };
  const Case cases[] = {
      {"0", 0},
      {"65536", 65536},
      {"12B", 12},
      {"1K", kKiB},
      {"1k", kKiB},
      {"1KiB", kKiB},
      {"1KB", 1000},
      {"3M", 3 * kMiB},
      {"3mib", 3 * kMiB},
      {"3MB", 3'000'000},
      {"1.5GiB", 3 * kGiB / 2},
      {"40GB", 40'000'000'000},
      {"2G", 2 * kGiB},
      {"1T", 1024 * kGiB},
      {"1TiB", 1024 * kGiB},
      {"1TB", 1'000'000'000'000},
      {" 7 MiB ", 7 * kMiB},
      {".5KiB", 512},
      {"1.KiB", 1024},
      {"0.1B", 0},
      {"65536T", 1ull << 56},
  };
  for (const Case& each : cases) EXPECT_EQ(parse_size(each.text), each.bytes) << each.text;
}

TEST(ParseSize, RefusesNonsenseAndQuotesIt) {
  for (const char* text :
       {"", " ", "GiB", "-1", "+1", "1.5.5G", "12XB", "1 G B", "0x10", "1e9", "1.5", "1.", "nan", ".", "1,5G", "65537T",
        "99999999999999999999G", "1234567890123456789012345678901", "1G\n1"}) {
    try {
      const std::uint64_t bytes = parse_size(text);
      ADD_FAILURE() << "'" << text << "' was taken for " << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::kInvalid);
      EXPECT_NE(std::string(error.what()).find("'" + std::string(text) + "'"), std::string::npos) << error.what();
    }
  }
}

TEST(ParseRate, ReadsWhatPeopleWrite) {
  struct Case {
    const char* text;
    std::uint64_t bytes;
  };
  const Case cases[] = {{"15.754GB/s", 15754000000},
                        {"3.2 GB/s", 3200000000},
                        {"500MiB/s ", 500 * kMiB},
                        {"1GiB/s", kGiB},
                        {"0", 0},
                        {"65536", 65536},
                        {"65536/s", 65536},
                        {"0.5kb/s", 500}};
  for (const Case& each : cases) EXPECT_EQ(parse_rate(each.text), each.bytes) << each.text;
}

TEST(ParseRate, RefusesNonsenseAndQuotesIt) {
  for (const char* text : {"", "/s", "GB/s", "3.2GB", "3.2GBps", "-1GB/s", "1GB/s/s", "1GB/h", "1e9"}) {
    try {
      const std::uint64_t bytes = parse_rate(text);
      ADD_FAILURE() << "'" << text << "' was taken for " << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::kInvalid);
      EXPECT_NE(std::string(error.what()).find("rate '" + std::string(text) + "'"), std::string::npos) << error.what();
    }
  }
}

TEST(FormatSize, HasThreeDigits) {
  struct Case {
    std::uint64_t bytes;
    const char* text;
  };
  const Case cases[] = {
      {0, "0 B"},
      {1, "1 B"},
      {1023, "1023 B"},
      {1024, "1.00 KiB"},
      {1536, "1.50 KiB"},
      {10 * kKiB, "10.0 KiB"},
      {100 * kKiB, "100 KiB"},
      {kMiB - 1, "1.00 MiB"},
      {3 * kGiB / 2, "1.50 GiB"},
      {1024 * kGiB, "1.00 TiB"},
  };
  for (const Case& each : cases) EXPECT_EQ(format_size(each.bytes), each.text) << each.bytes;
}

TEST(FormatSize, IsReadBackNearly) {
  for (std::uint64_t bytes = 1; bytes < 1ull << 50; bytes = bytes * 3 + 1) {
    const double back = static_cast<double>(parse_size(format_size(bytes)));
    EXPECT_NEAR(back / static_cast<double>(bytes), 1.0, 0.006) << bytes;
  }
}

}  // namespace
}  // namespace ebb
