// Fuzz target of the CSV parser. With -DMILLRACE_LIBFUZZER and clang's -fsanitize=fuzzer it is a
// libFuzzer target; else a program of its own:
//   fuzz_csv [--runs N] [--seed S] [FILE...]   runs each file, then N random mutations of seeds
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tests/formats/csv_text.h"

namespace millrace {
namespace {

// The first bytes choose limits and chunk sizes, the rest is the file.
void RunOne(std::string_view input) {
  if (input.size() < 3) return;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(input[i]); };
  CsvLimits limits;
  if (byte(0) < 128) limits.max_record_bytes = byte(0);
  if (byte(1) < 32) limits.max_fields = 1 + byte(1);
  const size_t chunk = 1 + byte(2) % 100;
  const std::string_view text = input.substr(3);

  const std::vector<ParsedRecord> whole = Parse(text, limits);
  MILLRACE_CHECK(whole == ParseByChunks(text, limits, [&] { return chunk; }));
  uint64_t line = 0;
  uint64_t at = 0;
  for (const ParsedRecord& record : whole) {
    MILLRACE_CHECK(record.line > line);
    line = record.line;
    MILLRACE_CHECK(record.offset >= at);
    MILLRACE_CHECK(record.offset + record.raw.size() <= text.size());
    MILLRACE_CHECK(text.substr(record.offset, record.raw.size()) == record.raw);
    MILLRACE_CHECK(record.raw.size() <= limits.max_record_bytes);
    at = record.offset + record.raw.size();
    MILLRACE_CHECK(record.fields.empty() == !record.error.empty());
    MILLRACE_CHECK(record.fields.size() <= limits.max_fields);
    if (!record.error.empty()) continue;
    // What was read, written again, is read the same.
    std::string again;
    for (const std::string& field : record.fields) {
      if (!again.empty()) again += ',';
      again += Quoted(field, true);
    }
    const std::vector<ParsedRecord> reread = Parse(again);
    MILLRACE_CHECK(reread.size() == 1 && reread[0].fields == record.fields);
  }
}

}  // namespace
}  // namespace millrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::RunOne({reinterpret_cast<const char*>(data), size});
  return 0;
}

#ifndef MILLRACE_LIBFUZZER
namespace {

constexpr std::string_view kSeeds[] = {
    "\377\377\007a,b,c\n1,2,3\n",
    "\377\377\003\357\273\277id,text\r\n1,\"a, \"\"b\"\"\r\nc\"\r\n\r\n2,\"\"\r\n",
    "\377\377\100x,\"never closed\n1,2\n3,\"4\"\n",
    "\020\002\005\"too long a record\",1\n12345678901234567890\n1,2,3,4\n",
    "\377\377\0015\" pipe,\"a\"b\n\"c\" ,d\r\r\n",
};
constexpr std::string_view kPieces[] = {"\"", "\"\"", ",", "\n", "\r\n", "\r", "\xEF\xBB\xBF", "x"};

std::string Mutate(std::string input, std::mt19937_64& random) {
  for (uint64_t n = 1 + random() % 8; n > 0; --n) {
    const size_t at = random() % (input.size() + 1);
    const size_t size = random() % (input.size() - at + 1);
    switch (random() % 5) {
      case 0:
        input.insert(at, kPieces[random() % std::size(kPieces)]);
        break;
      case 1:
        input.erase(at, std::min<size_t>(size, 10));
        break;
      case 2:
        if (at < input.size()) input[at] = static_cast<char>(random());
        break;
      case 3:
        if (input.size() < 5000) input.insert(at, input.substr(at, size));
        break;
      default:
        input += kSeeds[random() % std::size(kSeeds)];
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 20000;
  uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--runs" && i + 1 < argc) {
      runs = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::ifstream file(argument, std::ios::binary);
      if (!file) {
        std::fprintf(stderr, "cannot open %s\n", argument.c_str());
        return 1;
      }
      millrace::RunOne(std::string(std::istreambuf_iterator<char>(file), {}));
    }
  }
  std::mt19937_64 random(seed);
  for (uint64_t run = 0; run < runs; ++run) {
    millrace::RunOne(Mutate(std::string(kSeeds[random() % std::size(kSeeds)]), random));
  }
  std::printf("%llu mutations from seed %llu: no failure\n", static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(seed));
  return 0;
}
#endif
