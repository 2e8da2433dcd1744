#include "formats/text_beginning.h"

#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace millrace {
namespace {

constexpr char kBegins[] = "; it begins with: ";
constexpr size_t kShownBytes = 30;

}  // namespace

Status WithBeginning(const Status& error, std::string_view text) {
  if (text.empty()) return Status(error.code(), absl::StrCat(error.message(), "; it is empty"));
  return Status(error.code(), absl::StrCat(error.message(), kBegins, Printable(text, kShownBytes)));
}

std::string_view WithoutBeginning(std::string_view reason) {
  return reason.substr(0, reason.find(kBegins));
}

}  // namespace millrace
