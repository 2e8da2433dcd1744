#include "base/interruptible_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

namespace millrace {
namespace {

// A pipe that nobody reads so far.
class InterruptibleOutputTest : public ::testing::Test {
 protected:
  InterruptibleOutputTest() {
    int ends[2] = {};
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_ = ends[0];
    write_ = ends[1];
  }
  ~InterruptibleOutputTest() override {
    CloseReader();
    close(write_);
  }
  void CloseReader() {
    if (read_ >= 0) close(read_);
    read_ = -1;
  }

  std::string Read(size_t bytes) const {
    std::string all;
    std::string some(4096, '\0');
    while (all.size() < bytes) {
      const ssize_t count = read(read_, some.data(), some.size());
      if (count <= 0) break;
      all.append(some, 0, static_cast<size_t>(count));
    }
    return all;
  }

  static constexpr size_t kMoreThanAPipe = 1'000'000;

  int read_ = -1;
  int write_ = -1;
  std::atomic<bool> stop_ = false;
};

TEST_F(InterruptibleOutputTest, WritesAllForAReaderThatComesLate) {
  std::string text;
  while (text.size() < kMoreThanAPipe) text += std::to_string(text.size()) + "\n";
  Status written;
  std::thread writer([&] { written = InterruptibleOutput(write_, "out", stop_).Write(text); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(Read(text.size()) == text);  // (A difference would be very long.)
  writer.join();
  EXPECT_TRUE(written.ok()) << written;
}

TEST_F(InterruptibleOutputTest, GivesUpWhatNobodyTakesWhenItIsStopped) {
  InterruptibleOutput output(write_, "out", stop_);
  Status written;
  std::thread writer([&] { written = output.Write(std::string(kMoreThanAPipe, 'x')); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  stop_ = true;
  writer.join();
  EXPECT_TRUE(absl::IsCancelled(written)) << written;
  // Its patience is at an end.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(absl::IsCancelled(output.Write("more")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, InterruptibleOutput::kPatience);
}

TEST_F(InterruptibleOutputTest, WritesWhatIsTakenAfterItWasStopped) {
  stop_ = true;
  ASSERT_TRUE(InterruptibleOutput(write_, "out", stop_).Write("the last words").ok());
  EXPECT_EQ(Read(14), "the last words");
}

TEST_F(InterruptibleOutputTest, SaysThatItsReaderHasGone) {
  CloseReader();
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const Status written = InterruptibleOutput(write_, "out", stop_).Write("x");
  std::signal(SIGPIPE, before);
  EXPECT_FALSE(written.ok());
  EXPECT_NE(std::string(written.message()).find("out"), std::string::npos);
}

TEST_F(InterruptibleOutputTest, WaitsForTheReaderOfANamedPipeUntilItIsStopped) {
  const std::string path = ::testing::TempDir() + "pipe-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), S_IRUSR | S_IWUSR), 0);
  StatusOr<int> opened(absl::UnknownError(""));
  std::thread opener([&] { opened = OpenInterruptibly(path, stop_); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  stop_ = true;
  opener.join();
  EXPECT_TRUE(absl::IsCancelled(opened.status())) << opened.status();
  stop_ = false;
  std::thread reader([&] { close(open(path.c_str(), O_RDONLY)); });
  opened = OpenInterruptibly(path, stop_);
  reader.join();
  ASSERT_TRUE(opened.ok()) << opened.status();
  close(*opened);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace millrace
