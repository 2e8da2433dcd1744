// The file of malformed rows.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace millrace {

struct RejectedRow {
  uint64_t line = 0;  // of the input, where the row starts
  std::string_view reason;
  std::string_view raw;  // as in the input
};

class RejectSink {
 public:
  virtual ~RejectSink() = default;
  virtual Status Add(const RejectedRow& row) = 0;
  // The whole input has been read: nothing more will be added.
  virtual Status Finish() = 0;
  // Its name in messages.
  virtual const std::string& name() const = 0;
  // Whether what was added is there for a person to read.
  virtual bool is_kept() const { return true; }
};

// A CSV of its own, with the columns line, reason and row: RFC 4180 whatever the row is, so that
// any CSV tool lists it. The column `row`, under the input's header, is a CSV that can be corrected
// and streamed.
//
// The file is made by the first row that is added, in place of what an earlier run left, readable
// by its owner only (rows may be private); a run that reads its whole input without any removes an
// old one. Since a run reads its input from the start, a file is thus complete and without
// duplicates after restarts, too.
//
// Until Accept() rows go to `path`.tmp, and what an earlier run left stays as it is: a run whose
// input turns out to be another one than its job's must not replace what that job, or another one
// with an input of this name, has rejected.
class RejectFile final : public RejectSink {
 public:
  // Nothing is written yet. Errors: `path` is the input itself, or exists and was not written by
  // this class.
  static StatusOr<std::unique_ptr<RejectFile>> Create(std::string path, const std::string& input);
  ~RejectFile() override;
  RejectFile(const RejectFile&) = delete;
  RejectFile& operator=(const RejectFile&) = delete;

  Status Add(const RejectedRow& row) override;
  Status Finish() override;
  // The input is the job's: puts the file in its place.
  Status Accept();
  const std::string& name() const override { return path_; }
  bool is_kept() const override { return accepted_ || special_; }
  // Writes the added rows to the file.
  Status Flush();

 private:
  explicit RejectFile(std::string path) : path_(std::move(path)) {}

  std::string temporary() const { return path_ + ".tmp"; }
  Status Open();
  Status CannotWrite() const;
  Status Write(std::string_view text);
  Status RemoveLeftover();

  std::string path_;
  std::FILE* file_ = nullptr;
  bool accepted_ = false;
  bool finished_ = false;
  bool special_ = false;  // no regular file
  std::string line_;      // scratch
};

// INPUT's file name + ".rejects.csv", in the current folder: data may be read-only.
std::string DefaultRejectPath(std::string_view input);

}  // namespace millrace
