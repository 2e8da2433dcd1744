#include "stores/rocksdb_log.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iomanip>
#include <mutex>
#include <utility>

namespace millrace {
namespace {

constexpr std::streamoff kMostBytes = 1 << 20;

class RocksDbLog final : public rocksdb::Logger {
 public:
  explicit RocksDbLog(std::string file)
      : Logger(rocksdb::WARN_LEVEL), file_(std::move(file)), out_(file_, std::ios::app) {}

  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 1024> text;  // a longer line is cut
    if (std::vsnprintf(text.data(), text.size(), format, arguments) < 0) return;
    const std::time_t now = std::time(nullptr);
    std::tm utc = {};
    gmtime_r(&now, &utc);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (out_.tellp() > kMostBytes) out_ = std::ofstream(file_, std::ios::trunc);
    out_.clear();  // there may be room again
    out_ << std::put_time(&utc, "%FT%TZ ") << text.data() << std::endl;
  }

 private:
  const std::string file_;
  std::mutex mutex_;
  std::ofstream out_;
};

}  // namespace

std::shared_ptr<rocksdb::Logger> MakeRocksDbLog(const std::string& path) {
  return std::make_shared<RocksDbLog>(path + "/LOG");
}

}  // namespace millrace
