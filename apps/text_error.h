// The first error of a text in protobuf's text format, with its place.
#pragma once

#include <google/protobuf/io/tokenizer.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {

// A place as lines and columns are counted in editors: protobuf counts from 0.
inline std::string PlaceInText(const std::string& name, int line, int column) {
  return absl::StrCat(name, ":", line + 1, ":", column + 1, ": ");
}

class FirstTextError final : public google::protobuf::io::ErrorCollector {
 public:
  // `name`: of the text, in the message.
  explicit FirstTextError(std::string name) : name_(std::move(name)) {}
  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) return;
    // What was found instead may be a password without its quotes.
    const std::string shown = message.substr(0, message.find(", got: "));
    text_ = PlaceInText(name_, line, column) + shown;
    if (shown == "Expected string") text_ += " in quotes";
  }
  // "NAME:LINE:COLUMN: reason"; empty: there was none.
  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string text_;
};

}  // namespace millrace
