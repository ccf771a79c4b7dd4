// The reader and the writer: what a valid file gives, and the message for each way in which a file can be wrong.
#include "trace/reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "ebb/status.h"
#include "trace/line_reader.h"
#include "trace/summary.h"
#include "trace/writer.h"
#include "trace_samples.h"

namespace ebb {
namespace {

constexpr const char* kHeader = "{\"format\":\"ebb-trace\",\"version\":1}\n";
constexpr const char* kTensor7 = "{\"tensor\":7,\"bytes\":100}\n";

Trace read(const std::string& text) {
  std::istringstream stream(text);
  return read_trace(stream, "x.jsonl");
}

// What is said about `text`, or "accepted".
std::string complaint(const std::string& text) {
  try {
    const Trace trace = read(text);
    EXPECT_EQ(check(trace), "");
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string after_header(const std::string& lines) { return complaint(std::string(kHeader) + kTensor7 + lines); }

#define EXPECT_SAYS(said, what) EXPECT_NE((said).find(what), std::string::npos) << (said)

TEST(Reader, ReadsEverythingThatTheFormatHas) {
  const Trace trace = read(
      "{\"format\":\"ebb-trace\",\"version\":1,\"model\":\"ViT\",\"batch\":8,\"source\":\"s\",\"device\":\"d\",\"x\":{}"
      "}\n"
      "{\"tensor\":7,\"bytes\":98304000,\"kind\":\"weight\",\"persistent\":true,\"mapped\":true}\n"
      "{\"tensor\":8,\"bytes\":5,\"persistent\":true,\"mapped\":true,\"continues\":true}\n"
      "{\"tensor\":4294967295,\"bytes\":1}\n\n"
      "{\"alloc\":4294967295}\r\n"
      "{\"launch\":0,\"op\":\"conv\",\"ns\":5,\"sync\":true,\"reads\":[7,7],\"writes\":[4294967295]}\n"
      "{\"unknown\":[{\"launch\":5}]}\n"
      "{\"launch\":1,\"op\":\"conv\",\"kind\":3,\"ns\":null,\"writes\":[]}\n"
      "{\"free\":4294967295}\n{\"mark\":\"somebody else's\"}\n{\"mark\":\"step\"}");
  EXPECT_EQ(check(trace), "");
  EXPECT_EQ(trace.model + trace.source + trace.device, "ViTsd");
  EXPECT_EQ(trace.batch, 8u);
  ASSERT_EQ(trace.tensors.size(), 3u);
  EXPECT_EQ(trace.tensors[0].kind, Trace::Kind::kWeight);
  EXPECT_TRUE(trace.tensors[0].persistent);
  EXPECT_TRUE(trace.tensors[0].mapped);
  EXPECT_FALSE(trace.tensors[0].continues);
  EXPECT_TRUE(trace.tensors[1].continues);
  EXPECT_FALSE(trace.tensors[2].mapped);
  EXPECT_EQ(trace.tensors[2].allocated_before, 0u);
  EXPECT_EQ(trace.tensors[2].freed_before, 2u);
  EXPECT_EQ(trace.tensors[2].kind, Trace::Kind::kOther);
  ASSERT_EQ(trace.launches.size(), 2u);
  EXPECT_EQ(trace.ops, std::vector<std::string>{"conv"});
  EXPECT_EQ(trace.launches[0].ns, 5u);
  EXPECT_EQ(trace.launches[1].ns, Trace::kUnknown);
  EXPECT_TRUE(trace.launches[0].sync);
  EXPECT_FALSE(trace.launches[1].sync);
  EXPECT_EQ(trace.uses, (std::vector<std::uint32_t>{0, 0, 2}));
  EXPECT_EQ(trace.steps, std::vector<std::uint32_t>{2});
}

TEST(Reader, SaysWhatIsWrongWithTheHeader) {
  EXPECT_SAYS(complaint(""), "x.jsonl:1: the file is empty");
  EXPECT_SAYS(complaint("\n"), "x.jsonl:1: the first line is blank");
  EXPECT_SAYS(complaint("{}"), "x.jsonl:1: this is no ebb-trace");
  EXPECT_SAYS(complaint("[1]"), "x.jsonl:1: not a JSON object");
  EXPECT_SAYS(complaint("{\"format\":\"chrome\"}"), "the format is \"chrome\" and not \"ebb-trace\"");
  EXPECT_SAYS(complaint("{\"format\":\"ebb-trace\"}"), "no \"version\"");
  EXPECT_SAYS(complaint("{\"format\":\"ebb-trace\",\"version\":2}"), "this is version 2 of the format");
  EXPECT_SAYS(complaint("{\"format\":\"ebb-trace\",\"version\":1.0}"), "\"version\" must be a whole number");
  EXPECT_SAYS(complaint("{\"format\":\"ebb-trace\",\"version\":1,\"batch\":-1}"), "\"batch\" must be a whole number");
  EXPECT_SAYS(complaint("{\"format\":\"ebb-trace\",\"version\":1,\"model\":1}"), "\"model\" must be a string, not 1");
  EXPECT_SAYS(complaint(std::string(kHeader) + kHeader), "x.jsonl:2: a second header");
}

TEST(Reader, SaysWhatIsWrongWithATensor) {
  EXPECT_SAYS(after_header(kTensor7), "x.jsonl:3: tensor 7 is declared twice");
  EXPECT_SAYS(after_header("{\"tensor\":4294967296,\"bytes\":1}"), "from 0 to 2^32-1, not 4294967296");
  EXPECT_SAYS(after_header("{\"tensor\":-1,\"bytes\":1}"), "not -1");
  EXPECT_SAYS(after_header("{\"tensor\":1.5,\"bytes\":1}"), "not 1.5");
  EXPECT_SAYS(after_header("{\"tensor\":\"1\",\"bytes\":1}"), "not \"1\"");
  EXPECT_SAYS(after_header("{\"tensor\":1}"), "tensor 1 has no \"bytes\"");
  EXPECT_SAYS(after_header("{\"tensor\":1,\"bytes\":72057594037927937}"), "from 0 to 2^56, not 72057594037927937");
  EXPECT_SAYS(after_header("{\"tensor\":1,\"bytes\":99999999999999999999}"), "not 99999999999999999999");
  EXPECT_EQ(after_header("{\"tensor\":1,\"bytes\":72057594037927936}"), "accepted");
  EXPECT_SAYS(after_header("{\"tensor\":1,\"bytes\":1,\"kind\":\"wieght\"}"), "must be one of weight, gradient");
  EXPECT_SAYS(after_header("{\"tensor\":1,\"bytes\":1,\"persistent\":1}"), "\"persistent\" must be true or false");
  EXPECT_SAYS(after_header("{\"tensor\":1,\"bytes\":1,\"mapped\":\"a\"}"), "\"mapped\" must be true or false");
  EXPECT_SAYS(after_header("{\"tensor\":1,\"bytes\":1,\"mapped\":true}"), "must be both");
  const std::string piece = "{\"tensor\":1,\"bytes\":1,\"continues\":true}\n";
  EXPECT_EQ(after_header(piece), "accepted");
  EXPECT_SAYS(complaint(kHeader + piece), "tensor 1 \"continues\" the one before it");
  EXPECT_SAYS(after_header("{\"tensor\":2,\"bytes\":1,\"persistent\":true}\n" + piece), "there as long");
  EXPECT_SAYS(after_header("{\"tensor\":2,\"bytes\":1}\n" + piece + "{\"alloc\":1}\n"), "there as long");
  EXPECT_EQ(after_header("{\"tensor\":2,\"bytes\":1}\n" + piece + "{\"alloc\":1}\n{\"alloc\":2}\n"), "accepted");
  EXPECT_SAYS(after_header("{\"tensor\":1,\"tensor\":2,\"bytes\":1}"), "the key \"tensor\" is there twice");
  std::string much;
  for (int i = 100; i < 200; ++i) much += "{\"tensor\":" + std::to_string(i) + ",\"bytes\":72057594037927936}\n";
  EXPECT_SAYS(after_header(much), "x.jsonl:66: the tensors up to here have more than 2^62 bytes together");
}

TEST(Reader, ASequenceConsistsOfIterations) {
  const std::string header = "{\"format\":\"ebb-trace\",\"version\":1,\"sequence\":true}\n";
  const std::string launch = "{\"launch\":0,\"op\":\"a\"}\n{\"mark\":\"step\"}\n";
  const Trace trace = read(header + launch + "{\"launch\":1,\"op\":\"a\"}\n{\"mark\":\"step\"}\n");
  EXPECT_TRUE(trace.sequence);
  EXPECT_EQ(trace.begin_after(0), 0u);
  EXPECT_EQ(trace.begin_after(1), 1u);
  EXPECT_EQ(trace.begin_after(2), 2u);
  EXPECT_EQ(trace.begin_after(3), 2u);
  EXPECT_SAYS(complaint(header + launch + "{\"launch\":1,\"op\":\"a\"}\n"),
              "x.jsonl:5: a \"sequence\" ends in the middle");
  EXPECT_SAYS(complaint("{\"format\":\"ebb-trace\",\"version\":1,\"sequence\":1}\n"),
              "\"sequence\" must be true or false");
  EXPECT_FALSE(read("{\"format\":\"ebb-trace\",\"version\":1,\"sequence\":null}\n" + launch).sequence);
}

TEST(Reader, SaysWhatIsWrongWithALaunch) {
  EXPECT_SAYS(after_header("{\"launch\":1,\"op\":\"x\"}"), "launch 1 stands where launch 0 is expected");
  EXPECT_SAYS(after_header("{\"launch\":0}"), "launch 0 has no \"op\"");
  EXPECT_SAYS(after_header("{\"launch\":0,\"op\":5}"), "\"op\" must be a string, not 5");
  EXPECT_SAYS(after_header("{\"launch\":0,\"op\":\"x\",\"ns\":1e3}"), "\"ns\" must be a whole number from 0 to 2^56");
  EXPECT_SAYS(after_header("{\"launch\":0,\"op\":\"x\",\"ns\":72057594037927937}"), "from 0 to 2^56");
  EXPECT_SAYS(after_header("{\"launch\":0,\"op\":\"x\",\"reads\":[8]}"), "x.jsonl:3: tensor 8 is not declared");
  EXPECT_SAYS(after_header("{\"launch\":0,\"op\":\"x\",\"reads\":7}"), "\"reads\" must be a list of tensor ids");
  EXPECT_SAYS(after_header("{\"launch\":0,\"op\":\"x\",\"writes\":[7,-7]}"), "not -7");
  EXPECT_SAYS(after_header("{\"launch\":0,\"op\":\"x\",\"writes\":[[7]]}"), "not a list");
  EXPECT_SAYS(after_header("{\"launch\":0,\"op\":\"x\",\"writes\":[4294967303]}"), "not 4294967303");
  EXPECT_SAYS(after_header("{\"launch\":0,\"op\":\"x\",\"tensor\":9}"), "both \"tensor\" and \"launch\"");
  EXPECT_SAYS(after_header("{\"op\":\"x\"}"), "the line is not about a");
}

TEST(Reader, SaysWhatIsWrongWithALife) {
  const std::string use = "{\"launch\":0,\"op\":\"x\",\"reads\":[7]}\n";
  EXPECT_SAYS(after_header("{\"alloc\":8}"), "tensor 8 is not declared");
  EXPECT_SAYS(after_header("{\"alloc\":7}\n{\"alloc\":7}"), "x.jsonl:4: tensor 7 is allocated twice");
  EXPECT_SAYS(after_header(use + "{\"alloc\":7}"), "tensor 7 is allocated after it was used");
  EXPECT_SAYS(after_header("{\"free\":7}"), "tensor 7 is freed but was neither allocated nor used");
  EXPECT_SAYS(after_header(use + "{\"free\":7}\n{\"free\":7}"), "tensor 7 was freed before");
  EXPECT_SAYS(after_header("{\"alloc\":7}\n{\"free\":7}\n{\"alloc\":7}"), "tensor 7 was freed before");
  EXPECT_SAYS(after_header("{\"alloc\":7}\n{\"free\":7}\n" + use), "x.jsonl:5: tensor 7 is used after it was freed");
  const std::string persistent = "{\"tensor\":9,\"bytes\":1,\"persistent\":true}\n";
  EXPECT_SAYS(after_header(persistent + "{\"alloc\":9}"), "tensor 9 is persistent");
  EXPECT_SAYS(after_header(persistent + "{\"free\":9}"), "tensor 9 is persistent");
  EXPECT_SAYS(after_header("{\"mark\":\"step\"}"), "an iteration without launches");
  EXPECT_SAYS(after_header(use + "{\"mark\":\"step\"}\n{\"mark\":\"step\"}"), "an iteration without launches");
  EXPECT_SAYS(after_header("{\"mark\":1}"), "\"mark\" must be a string");
}

TEST(Reader, SaysWhatIsNoText) {
  EXPECT_SAYS(after_header("{\"free\":7"), "the last line has no end, so the file may be cut off");
  EXPECT_SAYS(after_header("{\"free\":7}}\n"), "x.jsonl:3: not valid JSON at column 11");
  EXPECT_SAYS(after_header("{\"free\":7} x\n"), "not valid JSON");
  EXPECT_SAYS(after_header("7\n"), "not a JSON object");
  EXPECT_SAYS(after_header(std::string("{\"alloc\":7}\0{", 13)), "a NUL byte at column 12");
  EXPECT_SAYS(after_header("{\"mark\":\"\xff\"}\n"), "not valid JSON");
  EXPECT_SAYS(after_header("{\"mark\":\"\xc3\"}\n"), "not valid JSON");
  EXPECT_SAYS(after_header("{\"mark\":NaN}\n"), "not valid JSON");
  const std::string deep(100000, '[');
  EXPECT_SAYS(after_header("{\"x\":" + deep + "\n"), "not valid JSON");
  EXPECT_SAYS(after_header(std::string(LineReader::kLineBytesMax + 1, ' ')), "x.jsonl:3: the line is longer than");
}

TEST(Reader, RefusesDamagedAndCutOffCompression) {
  TemporaryDirectory directory;
  Rng rng(5);
  Trace trace = random_trace(rng);
  while (trace.launches.size() < 20) trace = random_trace(rng);
  for (const char* suffix : {".gz", ".zst"}) {
    const std::string path = directory.file(std::string("t.jsonl") + suffix);
    write_trace(trace, path);
    const std::string whole = read_file(path);
    const auto said = [&](const std::string& bytes) {
      std::istringstream stream(bytes);
      try {
        return read_trace(stream, "x"), std::string("accepted");
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::kCorrupt);
        return std::string(error.what());
      }
    };
    EXPECT_SAYS(said(whole.substr(0, whole.size() / 2)), "is cut off");
    EXPECT_SAYS(said(whole.substr(0, whole.size() - 1)), "is cut off");
    EXPECT_SAYS(said(whole + "garbage behind it"), "is damaged");
    std::string flipped = whole;
    flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 0x10);
    EXPECT_SAYS(said(flipped), "is damaged");
    // The name does not matter, and one compressed part may follow another.
    const std::string misnamed =
        directory.file(std::string("misnamed") + (suffix == std::string(".gz") ? ".zst" : ".gz"));
    write_file(misnamed, whole);
    EXPECT_TRUE(same(read_trace(misnamed), trace));
  }
  EXPECT_THROW(static_cast<void>(read_trace(directory.file("absent"))), Error);
  EXPECT_THROW(static_cast<void>(read_trace(directory.path())), Error);
}

TEST(Reader, ABombEndsAtTheLimits) {
  TemporaryDirectory directory;
  const std::string path = directory.file("bomb.gz");
  {
    const auto sink = open_sink(path);
    sink->write(kHeader);
    const std::string blanks(std::size_t{1} << 20, ' ');
    for (int i = 0; i < 64; ++i) sink->write(blanks);
    sink->finish();
  }
  EXPECT_LT(std::filesystem::file_size(path), 100000u);
  try {
    static_cast<void>(read_trace(path));
    FAIL();
  } catch (const Error& error) {
    EXPECT_SAYS(std::string(error.what()), "bomb.gz:2: the line is longer than");
  }
}

TEST(Writer, WhatIsWrittenComesBack) {
  TemporaryDirectory directory;
  Rng rng(1);
  for (int i = 0; i < 30; ++i) {
    const Trace trace = random_trace(rng);
    ASSERT_EQ(check(trace), "");
    for (const char* name : {"t.jsonl", "t.jsonl.gz", "t.jsonl.zst"}) {
      write_trace(trace, directory.file(name));
      EXPECT_TRUE(same(read_trace(directory.file(name)), trace)) << name;
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 3);
}

TEST(Reader, TheMachineOfTheRecordingIsInTheHeader) {
  const Trace trace =
      read(R"({"format":"ebb-trace","version":1,"device_bytes":1000,"flash_read_bps":0,"host_bytes":null,)"
           R"("launch_host_ns":5000})");
  EXPECT_EQ(trace.origin.device_bytes, 1000u);
  EXPECT_EQ(trace.origin.flash_read_bps, 0u);
  EXPECT_EQ(trace.origin.host_bytes, Trace::kUnknown);
  EXPECT_EQ(trace.origin.flash_write_bps, Trace::kUnknown);
  EXPECT_EQ(trace.origin.launch_host_ns, 5000u);
  EXPECT_EQ(trace.origin.sync_host_ns, Trace::kUnknown);
  EXPECT_SAYS(complaint(R"({"format":"ebb-trace","version":1,"device_bytes":"40GiB"})"),
              "\"device_bytes\" must be a whole number from 0 to 2^56, not \"40GiB\"");
  EXPECT_SAYS(complaint(R"({"format":"ebb-trace","version":1,"flash_total_bps":1.5})"), "not 1.5");
}

TEST(Writer, AnUnfinishedFileLeavesTheOldOneAndNothingElse) {
  TemporaryDirectory directory;
  const std::string path = directory.file("t.jsonl");
  write_file(path, "old");
  {
    TraceWriter writer(path, {});
    writer.tensor(1, 2, Trace::Kind::kOther, false);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
  EXPECT_THROW(TraceWriter(directory.file("absent/t.jsonl"), {}), Error);
  EXPECT_THROW(TraceWriter(directory.path(), {}), Error);
}

TEST(Writer, AFullDiskIsToldAndLosesNothing) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  TraceWriter writer("/dev/full", {});
  EXPECT_THROW(writer.finish(), Error);
}

TEST(Writer, LineByLineAsARecorderDoes) {
  TemporaryDirectory directory;
  const std::string path = directory.file("t.jsonl.zst");
  TraceWriter writer(path, {.model = "m", .source = "", .device = "", .batch = 3});
  writer.tensor(4, 10, Trace::Kind::kWeight, true);
  const std::array<std::uint32_t, 1> four{4};
  writer.launch("one", four, {}, 12);
  writer.tensor(9, 20, Trace::Kind::kActivation, false);
  writer.alloc(9);
  const std::array<std::uint32_t, 1> nine{9};
  writer.launch("two\xff", four, nine);
  writer.free(9);
  writer.mark_step();
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish();
  const Trace trace = read_trace(path);
  EXPECT_EQ(trace.model, "m");
  ASSERT_EQ(trace.launches.size(), 2u);
  EXPECT_EQ(trace.ops[1], "two\xef\xbf\xbd");
  EXPECT_EQ(trace.tensors[1].allocated_before, 1u);
  EXPECT_EQ(trace.tensors[1].freed_before, 2u);
  EXPECT_EQ(trace.steps, std::vector<std::uint32_t>{2});
  EXPECT_THROW(writer.tensor(1, Trace::kBytesMax + 1, Trace::Kind::kOther, false), Error);
}

TEST(Summary, CountsAndPeak) {
  const Trace trace = read(std::string(kHeader) +
                           "{\"tensor\":0,\"bytes\":100,\"kind\":\"weight\",\"persistent\":true}\n"
                           "{\"tensor\":1,\"bytes\":10,\"kind\":\"activation\"}\n"
                           "{\"tensor\":2,\"bytes\":20,\"kind\":\"activation\"}\n"
                           "{\"launch\":0,\"op\":\"a\",\"ns\":3,\"reads\":[0],\"writes\":[1]}\n"
                           "{\"launch\":1,\"op\":\"b\",\"ns\":4,\"reads\":[1],\"writes\":[2]}\n"
                           "{\"launch\":2,\"op\":\"c\",\"reads\":[2],\"writes\":[0]}\n");
  const Summary summary = summarize(trace);
  EXPECT_EQ(summary.total_ns, 7u);
  EXPECT_EQ(summary.timed_launches, 2u);
  EXPECT_EQ(summary.peak_bytes, 130u);
  EXPECT_EQ(summary.peak_launch, 1u);
  EXPECT_EQ(summary.persistent.bytes, 100u);
  EXPECT_EQ(summary.kinds[static_cast<std::size_t>(Trace::Kind::kActivation)].bytes, 30u);
}

TEST(G10Traces, AllAreReadQuicklyAndComeBack) {
  const std::filesystem::path folder = "bench/data/g10/traces";
  ASSERT_TRUE(std::filesystem::exists(folder)) << "tests run in the root of the repository";
  TemporaryDirectory directory;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto begin = std::chrono::steady_clock::now();
    const Trace trace = read_trace(entry.path().string());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(check(trace), "") << entry.path();
    EXPECT_GT(trace.launches.size(), 1000u);
    RecordProperty(entry.path().stem().stem().string(), std::to_string(took.count()) + " ms");
    write_trace(trace, directory.file("t.jsonl.zst"));
    EXPECT_TRUE(same(read_trace(directory.file("t.jsonl.zst")), trace)) << entry.path();
  }
}

}  // namespace
}  // namespace ebb
